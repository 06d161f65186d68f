//! What sockets need more than once: a send that is no signal, and times as the system wants them.

use std::io::IoSlice;
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::request::Header;

/// Sends what the socket takes of header and payload from position `at` on. A closed peer is an error, not a signal.
pub(crate) fn send_some(
    stream: &TcpStream,
    header: &[u8; Header::LEN],
    data: &[u8],
    at: usize,
) -> std::io::Result<usize> {
    let head = IoSlice::new(&header[at.min(Header::LEN)..]);
    let rest = IoSlice::new(&data[at.saturating_sub(Header::LEN)..]);
    let slices = if at < Header::LEN { &[head, rest][..] } else { &[rest][..] };
    send_slices(stream, slices)
}

/// Sends what the socket takes.
pub(crate) fn send_slices(stream: &TcpStream, slices: &[IoSlice<'_>]) -> std::io::Result<usize> {
    loop {
        match sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    let tv_sec = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(duration.subsec_nanos()) }
}
