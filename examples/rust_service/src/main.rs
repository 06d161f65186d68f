//! `rust_service directory [127.0.0.1:8000]`: serves what `oneflow.save(graph, directory)` wrote, until SIGTERM or SIGINT.

use oneflow_runtime::{Error, Pool, Result};
use oneflow_rust_service::{Limits, Service};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::time::Duration;

/// How long requests under way may take when it is told to end.
const GRACE: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = args.first() else {
        return Err(Error::value("usage: rust_service directory [address]"));
    };
    let address = args.get(1).map_or("127.0.0.1:8000", String::as_str);
    // Before the first request: none is cut short.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| Error::runtime(format!("signals: {e}")))?;
    let limits = Limits { runners: 1, wait: Duration::from_millis(2), queue: 4096 };
    let service = Service::start(Pool::load(path, limits.runners)?, address, limits)?;
    eprintln!("serving {path} at http://{}", service.address());
    signals.forever().next();
    // A second signal ends it at once.
    std::thread::spawn(move || signals.forever().next().map(|_| std::process::exit(1)));
    match service.shut_down(GRACE) {
        true => eprintln!("ended"),
        false => eprintln!("ended after {GRACE:?} with requests that had not come in whole"),
    }
    Ok(())
}
