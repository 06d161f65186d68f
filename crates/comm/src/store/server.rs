//! The server end of torch's store protocol: one thread, one poll loop, nothing that a client sends can block it.
//!
//! It listens only where it is told to. Lengths are checked before anything is kept, and a client that breaks the
//! protocol loses its connection. There is no authentication, as in the original: bind to a trusted network.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sockets::timespec;
use oneflow_base::{Error, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::table::Table;
use super::{MAX_KEY, MAX_KEYS, MAX_VALUE, code};

const MAX_CONNECTIONS: usize = 65_536;
/// Answers a client has not read yet.
const MAX_UNREAD: usize = 64 << 20;
/// The longest request: many keys with values. Only what was received is held.
const MAX_REQUEST: usize = 64 << 20;
/// Unfinished requests and unread answers of all clients together.
const MAX_HELD: usize = 128 << 20;
/// Reads of 64 KiB from a client before others have their turn.
const RECEIVE_TURNS: usize = 64;
/// How long nobody is let in once descriptors have run out.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// A running server; it stops when this is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn bind(address: SocketAddr) -> Result<Server> {
        let fail = |e: std::io::Error| {
            let hint = match e.kind() {
                ErrorKind::AddrInUse => "; another process has the port: choose a free MASTER_PORT",
                ErrorKind::AddrNotAvailable => {
                    "; the address is not one of this host's: rank 0 must run on MASTER_ADDR"
                }
                _ => "",
            };
            Error::runtime(format!("store: cannot listen on {address}: {e}{hint}"))
        };
        let listener = TcpListener::bind(address).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let bound = listener.local_addr().map_err(fail)?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let stop = Arc::new(eventfd(0, flags).map_err(|e| fail(e.into()))?);
        let inside = stop.clone();
        let thread = std::thread::Builder::new()
            .name("comm store".into())
            .spawn(move || Loop { listener, table: Table::default(), clients: Vec::new() }.run(&inside))
            .map_err(fail)?;
        Ok(Server { address: bound, stop, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An eventfd takes a write unless its counter is full, which means that it is readable anyway.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    listener: TcpListener,
    table: Table,
    clients: Vec<Client>,
}

struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    validated: bool,
    waiting: Option<Vec<Vec<u8>>>,
}

/// The connection cannot go on.
struct Close;

impl Loop {
    fn run(mut self, stop: &OwnedFd) {
        // Set while descriptors have run out: who knocks then waits in the queue of the listener.
        let mut full_until: Option<Instant> = None;
        loop {
            let pause = full_until.map(|until| until.saturating_duration_since(Instant::now()));
            let knocks = if full_until.is_none() { PollFlags::IN } else { PollFlags::empty() };
            let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&self.listener, knocks)];
            for client in &self.clients {
                let write = if client.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                fds.push(PollFd::new(&client.stream, PollFlags::IN | write));
            }
            match poll(&mut fds, pause.map(timespec).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[0] {
                return;
            }
            let mut changed = false;
            let table = &mut self.table;
            let mut flags = ready[2..].iter();
            self.clients.retain_mut(|client| {
                if !flags.next().copied().unwrap_or(false) {
                    return true;
                }
                // A client may set a value and leave: what it sent is served before its connection is closed.
                let received = client.receive();
                client.serve(table, &mut changed).and(received).is_ok()
            });
            // A value that one client sets may be what others wait for, and they may then set something in turn.
            while std::mem::take(&mut changed) {
                self.clients.retain_mut(|client| client.serve(table, &mut changed).is_ok());
            }
            self.hold_less();
            if full_until.is_some_and(|until| until <= Instant::now()) {
                full_until = None;
            }
            if ready[1] && !self.accept() {
                full_until = Some(Instant::now() + FULL_PAUSE);
            }
        }
    }

    /// Unfinished requests and unread answers of all clients together are bounded: who holds most leaves first.
    fn hold_less(&mut self) {
        let held = |client: &Client| client.input.capacity() + client.output.capacity();
        while self.clients.iter().map(held).sum::<usize>() > MAX_HELD {
            let Some(most) = (0..self.clients.len()).max_by_key(|&i| held(&self.clients[i])) else { return };
            self.clients.swap_remove(most);
        }
    }

    /// Takes in who knocks; false where that was not possible now.
    fn accept(&mut self) -> bool {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            };
            // Over the limit the connection is closed by being dropped.
            if self.clients.len() < MAX_CONNECTIONS && stream.set_nonblocking(true).is_ok() {
                let _ = stream.set_nodelay(true);
                self.clients.push(Client {
                    stream,
                    input: Vec::new(),
                    output: Vec::new(),
                    validated: false,
                    waiting: None,
                });
            }
        }
    }
}

impl Client {
    fn receive(&mut self) -> Result<(), Close> {
        let mut buf = [0; 64 << 10];
        // One turn takes in a bounded part, so that the sum over all clients is looked at in between.
        for _ in 0..RECEIVE_TURNS {
            match self.stream.read(&mut buf) {
                Ok(0) => return Err(Close),
                Ok(n) => self.input.extend_from_slice(&buf[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Close),
            }
            if self.input.len() > MAX_REQUEST {
                return Err(Close);
            }
        }
        Ok(())
    }

    /// Answers every complete request, unless it must wait.
    fn serve(&mut self, table: &mut Table, changed: &mut bool) -> Result<(), Close> {
        let input = std::mem::take(&mut self.input);
        let mut reader = Reader { data: &input };
        loop {
            if let Some(keys) = &self.waiting {
                if table.has_all(keys) {
                    self.waiting = None;
                    self.output.push(code::YES);
                } else if reader.data.first() != Some(&code::CANCEL_WAIT) {
                    break;
                }
            }
            let rest = reader.data;
            match self.answer(&mut reader, table, changed) {
                Ok(()) => {}
                Err(Stop::Incomplete) => {
                    reader.data = rest;
                    break;
                }
                Err(Stop::Invalid) => return Err(Close),
            }
            if self.output.len() > MAX_UNREAD {
                return Err(Close);
            }
        }
        self.input = reader.data.to_vec();
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Close> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Close),
            }
        }
        self.output.drain(..sent);
        Ok(())
    }

    /// One request. Nothing happens before all of it has been read.
    fn answer(&mut self, reader: &mut Reader<'_>, table: &mut Table, changed: &mut bool) -> Result<(), Stop> {
        let op = reader.u8()?;
        if self.validated == (op == code::VALIDATE) {
            return Err(Stop::Invalid);
        }
        match op {
            code::VALIDATE => {
                if reader.u32()? != code::MAGIC {
                    return Err(Stop::Invalid);
                }
                self.validated = true;
            }
            code::PING => {
                let nonce = reader.u32()?;
                self.output.extend_from_slice(&nonce.to_le_bytes());
            }
            code::SET => {
                let (key, value) = (reader.key()?, reader.value()?);
                table.set(key, value).map_err(invalid)?;
                *changed = true;
            }
            code::COMPARE_SET => {
                let (key, expected, desired) = (reader.key()?, reader.value()?, reader.value()?);
                let value = table.compare_set(key, expected, desired).map_err(invalid)?;
                self.put_bytes(&value);
                *changed = true;
            }
            code::GET => {
                let key = reader.key()?;
                let value = table.get(key).ok_or(Stop::Invalid)?;
                self.put_bytes(value);
            }
            code::ADD => {
                let (key, amount) = (reader.key()?, reader.u64()? as i64);
                let sum = table.add(key, amount).map_err(invalid)?;
                self.output.extend_from_slice(&sum.to_le_bytes());
                *changed = true;
            }
            code::CHECK => {
                let keys = reader.keys()?;
                self.output.push(if table.has_all(&keys) { code::YES } else { code::NO });
            }
            code::WAIT => self.waiting = Some(reader.keys()?.into_iter().map(<[u8]>::to_vec).collect()),
            code::NUM_KEYS => self.output.extend_from_slice(&(table.len() as i64).to_le_bytes()),
            code::DELETE => {
                let key = reader.key()?;
                self.output.extend_from_slice(&i64::from(table.delete(key)).to_le_bytes());
            }
            code::APPEND => {
                let (key, value) = (reader.key()?, reader.value()?);
                table.append(key, value).map_err(invalid)?;
                *changed = true;
            }
            code::MULTI_GET => {
                for key in reader.keys()? {
                    let value = table.get(key).ok_or(Stop::Invalid)?;
                    self.put_bytes(value);
                    if self.output.len() > MAX_UNREAD {
                        return Err(Stop::Invalid);
                    }
                }
            }
            code::MULTI_SET => {
                let n = reader.count(MAX_KEYS)?;
                let mut pairs = Vec::new();
                for _ in 0..n {
                    pairs.push((reader.key()?, reader.value()?));
                }
                for (key, value) in pairs {
                    table.set(key, value).map_err(invalid)?;
                }
                *changed = true;
            }
            code::CANCEL_WAIT => {
                self.waiting = None;
                self.output.push(code::NO);
            }
            _ => return Err(Stop::Invalid),
        }
        Ok(())
    }

    fn put_bytes(&mut self, value: &[u8]) {
        self.output.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.output.extend_from_slice(value);
    }
}

enum Stop {
    /// More bytes are needed.
    Incomplete,
    Invalid,
}

/// The protocol has no error answer: whatever cannot be done ends the connection.
fn invalid(_cause: &'static str) -> Stop {
    Stop::Invalid
}

struct Reader<'a> {
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Stop> {
        let (head, tail) = self.data.split_at_checked(n).ok_or(Stop::Incomplete)?;
        self.data = tail;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8, Stop> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, Stop> {
        Ok(self.take(4)?.iter().rev().fold(0, |v, &b| v << 8 | u32::from(b)))
    }

    fn u64(&mut self) -> Result<u64, Stop> {
        Ok(self.take(8)?.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)))
    }

    /// A length or count, refused before anything of that size is waited for.
    fn count(&mut self, max: usize) -> Result<usize, Stop> {
        match usize::try_from(self.u64()?) {
            Ok(n) if n <= max => Ok(n),
            _ => Err(Stop::Invalid),
        }
    }

    fn key(&mut self) -> Result<&'a [u8], Stop> {
        let n = self.count(MAX_KEY)?;
        self.take(n)
    }

    fn value(&mut self) -> Result<&'a [u8], Stop> {
        let n = self.count(MAX_VALUE)?;
        self.take(n)
    }

    fn keys(&mut self) -> Result<Vec<&'a [u8]>, Stop> {
        let n = self.count(MAX_KEYS)?;
        let mut keys = Vec::new();
        for _ in 0..n {
            keys.push(self.key()?);
        }
        Ok(keys)
    }
}
