//! One TLS session over a socket, which may be non-blocking: what is encrypted but not sent yet, and what has come but was not
//! asked for yet. Sockets are given to each call, nothing here waits.

use std::io::{Error, ErrorKind, IoSlice, Read, Result, Write};
use std::net::TcpStream;

use rustls::Connection;

use super::fault::{Fault, NEEDS_TLS, is_hello, may_begin_answer};
use crate::sockets::send_slices;

/// Bytes that name a session: the same at both ends, and of no other session (RFC 9266).
const BINDING: usize = 32;

/// Bytes of a message that are encrypted at once: what is written next is still in the cache.
const PIECE: usize = 64 << 10;

pub(crate) struct Session {
    connection: Connection,
    input: Vec<u8>,
    /// The part of `input` that TLS has not seen.
    unseen: std::ops::Range<usize>,
    read_size: usize,
    /// The socket had nothing more at the last read, and neither has this.
    is_drained: bool,
    /// The peer has said its first byte.
    has_begun: bool,
    /// Something is wrong with what has come.
    is_broken: bool,
    /// Bytes of the message on its way out that are encrypted and not reported as sent.
    owed: usize,
}

impl Session {
    pub fn new(connection: Connection, read_size: usize) -> Session {
        Session {
            connection,
            input: Vec::new(),
            unseen: 0..0,
            read_size,
            is_drained: true,
            has_begun: false,
            is_broken: false,
            owed: 0,
        }
    }

    /// One step of the handshake: true once it is done. A socket that would block is the error of that name.
    pub fn handshake(&mut self, socket: &TcpStream) -> Result<bool> {
        if !self.flush(socket)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.connection.is_handshaking() {
            self.take_in(socket)?;
        }
        Ok(!self.connection.is_handshaking() && !self.connection.wants_write())
    }

    /// What tells this session from any other. The handshake must be done.
    pub fn binding(&self) -> Result<[u8; BINDING]> {
        let exported = self.connection.export_keying_material([0; BINDING], b"EXPORTER-Channel-Binding", Some(b""));
        exported.map_err(|e| Fault::from(e).into())
    }

    /// As of a socket. `Ok(0)`: the peer has said that it sends no more; an end without that is an error.
    pub fn read(&mut self, socket: &TcpStream, target: &mut [u8]) -> Result<usize> {
        loop {
            match self.connection.reader().read(target) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if let Err(e) = self.take_in(socket) {
                // What came before something was wrong is still good.
                return match self.connection.reader().read(target) {
                    Ok(n @ 1..) => Ok(n),
                    _ => Err(e),
                };
            }
        }
    }

    /// Bytes may be here that no poll of the socket tells of.
    pub fn has_unread(&self) -> bool {
        !self.is_drained
    }

    /// There is something to send that the socket has not taken.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends what the socket takes of a message that has `parts` left. Where it takes less than was encrypted, the error is
    /// `WouldBlock`, and the same parts must be given again.
    pub fn send(&mut self, socket: &TcpStream, parts: [&[u8]; 2]) -> Result<usize> {
        if !self.flush(socket)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.owed > 0 {
            return Ok(std::mem::take(&mut self.owed));
        }
        let head = &parts[0][..parts[0].len().min(PIECE)];
        let rest = &parts[1][..parts[1].len().min(PIECE - head.len())];
        let n = self.connection.writer().write_vectored(&[IoSlice::new(head), IoSlice::new(rest)])?;
        match self.flush(socket) {
            Ok(true) => Ok(n),
            Ok(false) => {
                self.owed = n;
                Err(ErrorKind::WouldBlock.into())
            }
            Err(e) => Err(self.last_words(socket).unwrap_or(e)),
        }
    }

    /// Why the peer has closed a connection that cannot be written to, if it said so.
    fn last_words(&mut self, socket: &TcpStream) -> Option<Error> {
        self.take_in(socket).err().filter(|e| Fault::of(e).is_some())
    }

    /// Sends a few bytes as a whole, or nothing where the socket is full. True: all of them are on it.
    pub fn tell(&mut self, socket: &TcpStream, bytes: &[u8]) -> Result<bool> {
        if !self.flush(socket)? {
            return Ok(false);
        }
        self.connection.writer().write_all(bytes)?;
        self.flush(socket)
    }

    #[cfg(test)]
    pub fn refresh_keys(&mut self) {
        self.connection.refresh_traffic_keys().unwrap();
    }

    /// Says that this end sends no more.
    pub fn close(&mut self, socket: &TcpStream) -> Result<bool> {
        self.connection.send_close_notify();
        self.flush(socket)
    }

    /// Sends what is encrypted; true if that is all.
    pub fn flush(&mut self, socket: &TcpStream) -> Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Sink(socket)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Reads and decrypts what the socket has, at least a byte.
    fn take_in(&mut self, socket: &TcpStream) -> Result<()> {
        if self.connection.wants_write() {
            self.flush(socket)?;
        }
        if self.unseen.is_empty() && !self.is_broken {
            self.fill(socket)?;
        }
        if !self.is_broken {
            // An empty rest is the end of the stream.
            let mut unseen = &self.input[self.unseen.clone()];
            self.unseen.start += self.connection.read_tls(&mut unseen)?;
        }
        if let Err(error) = self.connection.process_new_packets() {
            // The peer hears why. Whoever asks again gets the same answer.
            self.is_broken = true;
            let _ = self.flush(socket);
            return Err(Fault::from(error).into());
        }
        if self.unseen.is_empty() && self.input.is_empty() && self.connection.is_handshaking() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if self.connection.wants_write() {
            self.flush(socket)?;
        }
        Ok(())
    }

    fn fill(&mut self, mut socket: &TcpStream) -> Result<()> {
        self.input.resize(self.read_size, 0);
        let n = match socket.read(&mut self.input) {
            Ok(n) => n,
            Err(e) => {
                self.is_drained |= e.kind() == ErrorKind::WouldBlock;
                return Err(e);
            }
        };
        self.is_drained = false;
        self.unseen = 0..n;
        if n == 0 {
            self.input.clear();
            return Ok(());
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.greets(socket)?;
        }
        Ok(())
    }

    /// Looks at the peer's first byte: one without TLS is told so in its own tongue.
    fn greets(&self, mut socket: &TcpStream) -> Result<()> {
        let first = self.input[0];
        match &self.connection {
            Connection::Client(_) if !may_begin_answer(first) => {
                Err(Fault::new("does not use TLS, which this process demands: set ONEFLOW_TLS=1 on all ranks").into())
            }
            Connection::Server(_) if !is_hello(first) => {
                let _ = socket.write(&NEEDS_TLS);
                Err(Fault::new("uses no TLS, which this process demands").into())
            }
            _ => Ok(()),
        }
    }
}

/// Where rustls writes. A closed peer is an error, not a signal.
struct Sink<'a>(&'a TcpStream);

impl Write for Sink<'_> {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        send_slices(self.0, &[IoSlice::new(data)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> Result<usize> {
        send_slices(self.0, slices)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
