//! Why a TLS connection failed, in words for whoever runs the job.

use std::fmt;
use std::io::{Error as IoError, ErrorKind};

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// What an end that demands TLS answers to the first bytes of one that has none, in the place of a random number or an echo.
pub(crate) const NEEDS_TLS: [u8; 32] = padded(*b"TLS!");
/// And one without TLS to the first bytes of one that demands it.
pub(crate) const NEEDS_PLAIN: [u8; 32] = padded(*b"TLS?");

const fn padded(word: [u8; 4]) -> [u8; 32] {
    let mut text = [0; 32];
    let mut i = 0;
    while i < word.len() {
        text[i] = word[i];
        i += 1;
    }
    text
}

/// First bytes of TLS records.
const HANDSHAKE: u8 = 0x16;
const ALERT: u8 = 0x15;

/// Returns true for the first byte of an end that begins with TLS.
pub(crate) fn is_hello(first: u8) -> bool {
    first == HANDSHAKE
}

pub(super) fn may_begin_answer(first: u8) -> bool {
    first == HANDSHAKE || first == ALERT
}

/// The words of an end that demands TLS about one that has none.
pub(crate) const NO_TLS: &str = "it demands TLS, which this process does not use: set ONEFLOW_TLS=1 on all ranks";

/// Of one connection.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The end of a sentence that begins with the peer.
    pub words: &'static str,
    detail: String,
}

impl Fault {
    pub fn new(words: &'static str) -> Fault {
        Fault { words, detail: String::new() }
    }

    /// `Some` for errors of TLS.
    pub fn of(error: &IoError) -> Option<&Fault> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.is_empty() {
            true => f.write_str(self.words),
            false => write!(f, "{} ({})", self.words, self.detail),
        }
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for IoError {
    fn from(fault: Fault) -> IoError {
        IoError::new(ErrorKind::InvalidData, fault)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault { words: words(&error), detail: error.to_string() }
    }
}

/// What is wrong with this process's own certificate, as the end of a sentence that begins with its file.
pub(super) fn of_own_certificate(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(fault) => of_certificate(fault).1,
        _ => "is of no use",
    }
}

/// What is wrong with a certificate: of a peer, and of this process.
fn of_certificate(fault: &CertificateError) -> (&'static str, &'static str) {
    use CertificateError as C;
    match fault {
        C::Expired | C::ExpiredContext { .. } => ("has a certificate that is expired", "is expired"),
        C::NotValidYet | C::NotValidYetContext { .. } => {
            ("has a certificate that is not valid yet", "is not valid yet")
        }
        C::UnknownIssuer | C::BadSignature => {
            ("has a certificate that ONEFLOW_TLS_CA has not signed", "is not signed by ONEFLOW_TLS_CA")
        }
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            ("has a certificate without the name in ONEFLOW_TLS_NAME", "does not have the name in ONEFLOW_TLS_NAME")
        }
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
            ("has a certificate for another purpose", "is not for both, servers and clients")
        }
        _ => ("has a certificate that is of no use", "is of no use"),
    }
}

fn words(error: &Error) -> &'static str {
    use AlertDescription as A;
    match error {
        Error::InvalidCertificate(fault) => of_certificate(fault).0,
        Error::NoCertificatesPresented => "has no certificate",
        Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension) => {
            "uses certificates where this process has none, or the other way round: set ONEFLOW_TLS_CERT on all ranks or on none"
        }
        Error::PeerIncompatible(_) => "speaks no TLS that this process knows",
        Error::AlertReceived(alert) => match alert {
            A::CertificateExpired => "refuses this process, whose certificate is expired",
            A::UnknownCA | A::DecryptError => "refuses this process, whose certificate is of another authority",
            A::CertificateRequired => "refuses this process, which has no certificate",
            A::BadCertificate | A::CertificateUnknown | A::UnsupportedCertificate | A::AccessDenied => {
                "refuses the certificate of this process"
            }
            A::BadRecordMac => "has read bytes that were changed on the way",
            A::HandshakeFailure => {
                "refuses this process: perhaps one of both has certificates (ONEFLOW_TLS_CERT) and the other one none"
            }
            _ => "has ended the TLS connection",
        },
        Error::DecryptError => "has sent bytes that were changed on the way",
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "has sent something that is no TLS"
        }
        _ => "has broken the rules of TLS",
    }
}
