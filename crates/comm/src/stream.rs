//! A connection of the job, to another rank or the store: a socket, with a TLS session over it where the job demands one.
//!
//! Calls behave as those of a socket, blocking or not, but for one thing that a poll does not tell: a session may hold bytes that
//! have come (`has_unread`) or that the socket has not taken (`wants_write`).

use std::io::{ErrorKind, Read, Result};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{SendFlags, send};

use crate::auth::Key;
use crate::request::Header;
use crate::sockets::{send_slices, send_some};
use crate::tls::{Session, Tls};

pub(crate) struct Stream {
    socket: TcpStream,
    /// Boxed: without TLS a stream is hardly more than its socket.
    session: Option<Box<Mutex<Session>>>,
}

/// What an end of a connection has to show.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub key: Key,
    pub tls: Option<Tls>,
}

/// Bytes taken off a socket at once: of a connection for tensors, and of one for a few words.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    Tensors = 64 << 10,
    Words = 4 << 10,
}

impl Stream {
    /// The end that has connected. With TLS the handshake comes next.
    pub fn connected(socket: TcpStream, tls: Option<&Tls>, load: Load) -> Result<Stream> {
        let session = tls.map(|tls| tls.connects(&socket, load as usize)).transpose()?;
        Ok(Stream { socket, session: session.map(|session| Box::new(Mutex::new(session))) })
    }

    /// The end that was connected to. Reads take the handshake along.
    pub fn accepted(socket: TcpStream, tls: Option<&Tls>, load: Load) -> Result<Stream> {
        let session = tls.map(|tls| tls.accepts(load as usize)).transpose()?;
        Ok(Stream { socket, session: session.map(|session| Box::new(Mutex::new(session))) })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Uncontended but while one thread sends and another reads; nobody waits inside unless the socket is blocking.
    fn session(&self) -> Option<MutexGuard<'_, Session>> {
        Some(self.session.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One step of the handshake: true once it is done.
    pub fn handshake(&self) -> Result<bool> {
        self.session().map_or(Ok(true), |mut session| session.handshake(&self.socket))
    }

    /// The key of proofs on this connection. With TLS a proof is one of this very session: nobody in between can pass it on.
    pub fn bound(&self, key: &Key) -> Result<Key> {
        match self.session() {
            None => Ok(key.clone()),
            Some(session) => Ok(key.bound(&session.binding()?)),
        }
    }

    pub fn read(&self, target: &mut [u8]) -> Result<usize> {
        match self.session() {
            None => (&self.socket).read(target),
            Some(mut session) => session.read(&self.socket, target),
        }
    }

    pub fn has_unread(&self) -> bool {
        self.session().is_some_and(|session| session.has_unread())
    }

    pub fn wants_write(&self) -> bool {
        self.session().is_some_and(|session| session.wants_write())
    }

    /// Sends what the session still holds and the socket takes.
    pub fn flush(&self) {
        if let Some(mut session) = self.session() {
            // A connection that is broken is found by whoever reads it.
            let _ = session.flush(&self.socket);
        }
    }

    /// Sends what goes out now of header and payload from position `at` on. After `WouldBlock` the same message must go on at
    /// the same position: TLS may have encrypted some of it.
    pub fn send_message(&self, header: &[u8; Header::LEN], data: &[u8], at: usize) -> Result<usize> {
        match self.session() {
            None => send_some(&self.socket, header, data, at),
            Some(mut session) => {
                let parts = [&header[at.min(Header::LEN)..], &data[at.saturating_sub(Header::LEN)..]];
                session.send(&self.socket, parts)
            }
        }
    }

    /// As `send_message`, of bytes without a header.
    pub fn send(&self, data: &[u8]) -> Result<usize> {
        match self.session() {
            None => send_slices(&self.socket, &[std::io::IoSlice::new(data)]),
            Some(mut session) => session.send(&self.socket, [data, &[]]),
        }
    }

    /// Sends all, on a blocking socket, or where all fits an empty buffer.
    pub fn send_all(&self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            match self.send(data) {
                Ok(n) => data = &data[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends a few bytes as a whole if the socket has room, and waits for nothing; who reads a full socket is awake anyway.
    pub fn tell(&self, bytes: &[u8]) {
        match self.session() {
            None => drop(send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)),
            Some(mut session) => drop(session.tell(&self.socket, bytes)),
        }
    }

    #[cfg(test)]
    pub fn refresh_keys(&self) {
        self.session().unwrap().refresh_keys();
    }

    /// Says that no more will be sent.
    pub fn shutdown_write(&self) {
        if let Some(mut session) = self.session() {
            let _ = session.close(&self.socket);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    //! Streams under TLS over real sockets: small buffers, ends that hang up, changed bytes, wrong certificates.

    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use rustix::net::sockopt;

    use super::*;
    use crate::auth::Access;
    use crate::tls::tests::shows;
    use crate::tls::{Fault, NEEDS_PLAIN, NEEDS_TLS, is_hello};

    const LONG: Duration = Duration::from_secs(60);

    /// Two sockets that are connected with each other.
    fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    /// Takes steps until one says more than that it must wait; as a rank's poll loop, but that it does not sleep.
    fn until<R>(mut step: impl FnMut() -> std::io::Result<R>) -> std::io::Result<R> {
        let start = Instant::now();
        loop {
            match step() {
                Err(e) if e.kind() == ErrorKind::WouldBlock => assert!(start.elapsed() < LONG, "nothing comes"),
                other => return other,
            }
            std::thread::yield_now();
        }
    }

    fn handshake(stream: &Stream) -> std::io::Result<()> {
        until(|| stream.handshake().and_then(|done| if done { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }))
    }

    /// The handshake at both ends, and a byte back: in TLS 1.3 the end that connects learns last whether it is let in.
    fn meet(connects: &Tls, accepts: &Tls) -> (std::io::Result<Stream>, std::io::Result<Stream>) {
        meet_over(sockets(), connects, accepts)
    }

    fn meet_over(
        (one, other): (TcpStream, TcpStream),
        connects: &Tls,
        accepts: &Tls,
    ) -> (std::io::Result<Stream>, std::io::Result<Stream>) {
        one.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        let one = Stream::connected(one, Some(connects), Load::Tensors).unwrap();
        let other = Stream::accepted(other, Some(accepts), Load::Words).unwrap();
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                handshake(&other)?;
                until(|| other.send(b"!"))?;
                Ok(other)
            });
            let here = || {
                handshake(&one)?;
                match until(|| one.read(&mut [0]))? {
                    0 => Err(ErrorKind::UnexpectedEof.into()),
                    _ => Ok(one),
                }
            };
            (here(), there.join().unwrap())
        })
    }

    fn pair() -> (Stream, Stream) {
        let (one, other) = meet(&Tls::with_own_key().unwrap(), &Tls::with_own_key().unwrap());
        (one.unwrap(), other.unwrap())
    }

    #[test]
    fn certificates_of_the_authority_are_let_in_and_others_are_named() {
        let good = || shows("authority.pem", "rank.pem", None);
        let (one, other) = meet(&good(), &good());
        assert_eq!(tag(&one.unwrap()), tag(&other.unwrap()));
        let named = || shows("authority.pem", "rank.pem", Some("train.example"));
        let (one, other) = meet(&named(), &named());
        assert!(one.is_ok() && other.is_ok());
        let own = || Tls::with_own_key().unwrap();
        let cases = [
            (
                shows("authority.pem", "expired.pem", None),
                good(),
                "has a certificate that is expired",
                "whose certificate is expired",
            ),
            (
                shows("authority.pem", "of_stranger.pem", None),
                good(),
                "has a certificate that ONEFLOW_TLS_CA has not signed",
                "whose certificate is of another authority",
            ),
            (
                shows("authority.pem", "other_name.pem", None),
                named(),
                "without the name in ONEFLOW_TLS_NAME",
                "refuses the certificate",
            ),
        ];
        for (bad, good, found, told) in cases {
            let said = |result: std::io::Result<Stream>| result.err().unwrap().to_string();
            let (one, other) = meet(&bad, &good);
            let (one, other) = (said(one), said(other));
            assert!(one.contains(told) && other.contains(found), "the one that connects is bad: {one}; {other}");
            let (one, other) = meet(&good, &bad);
            let (one, other) = (said(one), said(other));
            assert!(one.contains(found) && other.contains(told), "the one that accepts is bad: {one}; {other}");
        }
        // A certificate for one end of a connection does not do for the other.
        let half = shows("authority.pem", "server_only.pem", None);
        let (one, other) = meet(&half, &good());
        assert!(other.err().unwrap().to_string().contains("for another purpose"), "{:?}", one.err());
        // Certificates at one end alone.
        for (connects, accepts) in [(own(), good()), (good(), own())] {
            let (one, other) = meet(&connects, &accepts);
            let (one, other) = (one.err().unwrap().to_string(), other.err().unwrap().to_string());
            assert!(one.contains("perhaps one of both has certificates"), "{one}");
            assert!(other.contains("certificates where this process has none"), "{other}");
        }
    }

    /// A proof bound to the session.
    fn tag(stream: &Stream) -> [u8; 32] {
        stream.bound(&Access::Anybody.key()).unwrap().tag("a test", &[])
    }

    #[test]
    fn sessions_differ_and_both_ends_of_one_agree() {
        let (one, other) = pair();
        assert_eq!(tag(&one), tag(&other));
        assert_ne!(tag(&one), tag(&pair().0));
    }

    /// Sends a message and hears one of the same length, in pieces, on one thread, until both are done.
    fn exchange(stream: &Stream, header: &[u8; Header::LEN], data: &[u8], target: &mut [u8]) -> usize {
        let (total, start) = (Header::LEN + data.len(), Instant::now());
        let (mut out, mut at, mut blocked) = (0, 0, 0);
        let mut head = [0; Header::LEN];
        while out < total || at < total {
            assert!(start.elapsed() < LONG, "{out} and {at} of {total}");
            if out < total {
                match stream.send_message(header, data, out) {
                    Ok(n) => out += n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => blocked += 1,
                    Err(e) => panic!("{e}"),
                }
            }
            if at < total {
                // Odd lengths: records end anywhere.
                let piece = match at < Header::LEN {
                    true => &mut head[at..],
                    false => &mut target[at - Header::LEN..],
                };
                let n = piece.len().min(7_777);
                let piece = &mut piece[..n];
                match stream.read(piece) {
                    Ok(0) => panic!("the end"),
                    Ok(n) => at += n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    Err(e) => panic!("{e}"),
                }
            }
        }
        assert_eq!(head, header.map(|b| !b));
        blocked
    }

    #[test]
    fn long_messages_go_both_ways_at_once_through_small_buffers() {
        let sockets = sockets();
        for socket in [&sockets.0, &sockets.1] {
            // Of the other buffer: a small one would be a small window, and the kernel then waits before it tells of room.
            sockopt::set_socket_send_buffer_size(socket, 4096).unwrap();
            socket.set_nodelay(true).unwrap();
        }
        let (one, other) = meet_over(sockets, &Tls::with_own_key().unwrap(), &Tls::with_own_key().unwrap());
        let (one, other) = (one.unwrap(), other.unwrap());
        let data: Vec<u8> = (0..3_000_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for n in [0, 1, 63, 16_384, 65_537, data.len()] {
            let (mine, theirs) = ([7; Header::LEN], [!7; Header::LEN]);
            let (mut here, mut there) = (vec![0; n], vec![0; n]);
            let data = &data[..n];
            let blocked = std::thread::scope(|scope| {
                let thread = scope.spawn(|| exchange(&other, &theirs, data, &mut there));
                exchange(&one, &mine, data, &mut here) + thread.join().unwrap()
            });
            assert!(here == data && there == data, "{n}");
            assert!(n < data.len() || n < 1 << 20 || blocked > 0, "small buffers must have been full at times");
        }
    }

    #[test]
    fn keys_change_while_bytes_flow() {
        let (one, other) = pair();
        one.refresh_keys();
        until(|| one.send(b"after the change")).unwrap();
        let mut heard = [0; 16];
        assert_eq!(until(|| other.read(&mut heard)).unwrap(), 16);
        until(|| other.send(b"and back")).unwrap();
        assert_eq!(until(|| one.read(&mut heard)).unwrap(), 8);
        assert_eq!(&heard[..8], b"and back");
    }

    #[test]
    fn an_end_that_says_so_differs_from_one_that_breaks_off() {
        let (one, other) = pair();
        until(|| one.send(b"last words")).unwrap();
        one.shutdown_write();
        let mut heard = [0; 64];
        assert_eq!(until(|| other.read(&mut heard)).unwrap(), 10);
        assert_eq!(until(|| other.read(&mut heard)).unwrap(), 0);
        // The other half is still open.
        until(|| other.send(b"I hear you")).unwrap();
        assert_eq!(until(|| one.read(&mut heard)).unwrap(), 10);
        // Without a word, between records.
        let (one, other) = pair();
        one.socket().shutdown(Shutdown::Write).unwrap();
        assert_eq!(until(|| other.read(&mut heard)).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    /// Carries bytes from one socket to another; `change` is given what comes and its position, and says when to hang up.
    fn carry(from: TcpStream, to: TcpStream, mut change: impl FnMut(&mut Vec<u8>, usize) -> bool) {
        let (mut from, mut to) = (from, to);
        let (mut buf, mut at) = ([0; 8192], 0);
        while let Ok(n) = from.read(&mut buf)
            && n > 0
        {
            let mut piece = buf[..n].to_vec();
            let ends = change(&mut piece, at);
            at += n;
            if to.write_all(&piece).is_err() || ends {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Two ends with somebody between them, who does `change` to what the first one sends after the handshake.
    fn between(change: impl Fn(&mut Vec<u8>) -> bool + Send + 'static) -> (Stream, Stream) {
        let ((one, left), (right, other)) = (sockets(), sockets());
        let active = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (left2, right2, is_active) = (left.try_clone().unwrap(), right.try_clone().unwrap(), active.clone());
        std::thread::spawn(move || {
            carry(left, right, |piece, _| is_active.load(std::sync::atomic::Ordering::SeqCst) && change(piece));
        });
        std::thread::spawn(move || carry(right2, left2, |_, _| false));
        let (one, other) = meet_over((one, other), &Tls::with_own_key().unwrap(), &Tls::with_own_key().unwrap());
        active.store(true, std::sync::atomic::Ordering::SeqCst);
        (one.unwrap(), other.unwrap())
    }

    #[test]
    fn changed_and_truncated_records_are_found() {
        let mut heard = [0; 64];
        let (one, other) = between(|piece| {
            let last = piece.len() - 1;
            piece[last] ^= 1;
            false
        });
        until(|| one.send(b"a number")).unwrap();
        let error = until(|| other.read(&mut heard)).unwrap_err();
        assert!(Fault::of(&error).unwrap().words.contains("changed on the way"), "{error}");
        let error = until(|| one.read(&mut heard)).unwrap_err();
        assert!(Fault::of(&error).unwrap().words.contains("changed on the way"), "{error}");
        // A record that ends too early, and an end between records.
        for keep in [10, 0] {
            let (one, other) = between(move |piece| {
                piece.truncate(keep);
                true
            });
            until(|| one.send(b"a number")).unwrap();
            assert_eq!(until(|| other.read(&mut heard)).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
        // A record that comes twice.
        let (one, other) = between(|piece| {
            piece.extend_from_within(..);
            false
        });
        until(|| one.send(b"a number")).unwrap();
        assert_eq!(until(|| other.read(&mut heard)).unwrap(), 8);
        let error = until(|| other.read(&mut heard)).unwrap_err();
        assert!(Fault::of(&error).unwrap().words.contains("changed on the way"), "{error}");
    }

    #[test]
    fn an_end_without_tls_is_told_in_its_own_tongue() {
        let tls = Tls::with_own_key().unwrap();
        let (mut plain, other) = sockets();
        let other = Stream::accepted(other, Some(&tls), Load::Words).unwrap();
        plain.write_all(b"OFP5 and so on").unwrap();
        let error = other.read(&mut [0; 8]).unwrap_err();
        assert_eq!(Fault::of(&error).unwrap().words, "uses no TLS, which this process demands");
        let mut told = [0; 32];
        plain.read_exact(&mut told).unwrap();
        assert_eq!(told, NEEDS_TLS);
        let (one, mut plain) = sockets();
        let one = Stream::connected(one, Some(&tls), Load::Words).unwrap();
        plain.write_all(&NEEDS_PLAIN).unwrap();
        let error = one.handshake().unwrap_err();
        assert!(Fault::of(&error).unwrap().words.contains("does not use TLS"), "{error}");
        let mut hello = [0; 1];
        plain.read_exact(&mut hello).unwrap();
        assert!(is_hello(hello[0]));
        // One that hangs up at once.
        let (one, plain) = sockets();
        let one = Stream::connected(one, Some(&tls), Load::Words).unwrap();
        drop(plain);
        let error = until(|| one.handshake().map(|_| ())).and_then(|()| one.handshake().map(drop)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    }
}
