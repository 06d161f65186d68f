//! Prints on standard error what the crates below log. A program that embeds them without Python installs a subscriber of its
//! own.

use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Prints the messages of events, one after another; spans are not used.
struct Printer;

impl Subscriber for Printer {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        *of.level() <= Level::INFO && of.target().starts_with("oneflow")
    }
    fn event(&self, event: &Event<'_>) {
        let mut text = Message(String::new());
        event.record(&mut text);
        eprintln!("{}", text.0);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Installs the printer, unless the process has a subscriber.
pub fn install() {
    let _ = tracing::subscriber::set_global_default(Printer);
}
