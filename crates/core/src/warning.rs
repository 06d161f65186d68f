//! Warnings: passed to the installed handler (the binding), else dropped. No text is kept and none is counted here.

use oneflow_base::Result;
use std::sync::OnceLock;

/// Issues a warning; an error if the user turned warnings into errors.
pub type WarnFn = fn(&str) -> Result<()>;

static WARN: OnceLock<WarnFn> = OnceLock::new();

/// Installs the function; once, at start-up.
pub fn set_warn(f: WarnFn) {
    let _ = WARN.set(f);
}

/// Warns the user.
#[cold]
pub fn warn(text: &str) -> Result<()> {
    WARN.get().map_or(Ok(()), |f| f(text))
}
