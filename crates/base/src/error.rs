//! The one error type of the house. Few variants, each mapped to one Python class.

use std::fmt;

/// Which Python class an error becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// `RuntimeError`
    Runtime,
    /// `TypeError`
    Type,
    /// `ValueError`
    Value,
    /// `IndexError`
    Index,
    /// `NotImplementedError`
    NotImplemented,
    /// `oneflow.OutOfMemoryError`
    OutOfMemory,
    /// `oneflow.linalg.LinAlgError`: a matrix that a decomposition cannot take.
    LinAlg,
    /// An exception raised by user code that is waiting in the language above; nothing to add.
    Pending,
}

/// An error with its text. Boxed: a `Result<()>` stays one word on every hot path.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    text: String,
}

/// `Result` with the house's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    #[cold]
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, text: text.into() }))
    }
    #[cold]
    pub fn runtime(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Runtime, text)
    }
    #[cold]
    pub fn type_(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Type, text)
    }
    #[cold]
    pub fn value(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Value, text)
    }
    #[cold]
    pub fn index(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Index, text)
    }
    #[cold]
    pub fn not_implemented(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotImplemented, text)
    }
    #[cold]
    pub fn out_of_memory(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::OutOfMemory, text)
    }
    #[cold]
    pub fn linalg(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::LinAlg, text)
    }
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    pub fn text(&self) -> &str {
        &self.0.text
    }
    /// The same error with words in front of its text ("add(): ...").
    #[cold]
    pub fn context(mut self, prefix: impl fmt::Display) -> Self {
        self.0.text = format!("{prefix}{}", self.0.text);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.text)
    }
}

impl std::error::Error for Error {}
