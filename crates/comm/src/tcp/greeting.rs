//! The first words of a connection between two ranks: both prove that they know the job's secret, then the one that connects
//! says who it is and the other lets it in or says why not. Nothing here knows a store.
//!
//! ```text
//!             (with TLS its handshake comes before, and the proofs are bound to its session)
//! connecting: magic, nonce          ->
//!                                   <- nonce                     :accepting
//! connecting: hello, proof of it    ->
//!                                   <- answer, proof of it       :accepting
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::shm::Lanes;
use crate::auth::{HOW, Key, NONCE, TAG, nonce};
use crate::interrupt;
use crate::sockets::timespec;
use crate::stream::{Credentials, Load, Stream};
use crate::tls::{Fault, NEEDS_PLAIN, NEEDS_TLS, NO_TLS, is_hello};

/// Collectives, point-to-point messages, goodbyes.
pub(super) const N_LANES: usize = 3;
const MAGIC: [u8; 4] = *b"OFP5";
const OPENING: usize = MAGIC.len() + NONCE;

/// Strangers that are connected but have not said who they are, beside the ranks that may all knock at once.
const MAX_STRANGERS: usize = 256;
/// How long one of them may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a rank knocks again whose connection was closed before it was answered.
const KNOCKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Who connects, and to whom.
#[derive(Clone, Copy)]
pub(super) struct Hello {
    pub generation: u64,
    pub comm: u64,
    /// A word that the accepting rank has published: it tells jobs apart that share a secret or have none.
    pub word: u64,
    pub from: usize,
    pub to: usize,
    pub size: usize,
    pub lane: usize,
    /// Shared memory: the process and its descriptor, zeros for none.
    pub shm: (u32, u32),
    pub shm_word: u64,
    /// The same number for all ranks of one host.
    pub host: u64,
}

impl Hello {
    const LEN: usize = 64;

    fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let words = [self.generation, self.comm, self.word, self.shm_word, self.host];
        words.iter().enumerate().for_each(|(i, w)| out[8 * i..8 * i + 8].copy_from_slice(&w.to_le_bytes()));
        let halves = [self.from as u32, self.to as u32, self.size as u32, self.lane as u32, self.shm.0, self.shm.1];
        halves.iter().enumerate().for_each(|(i, h)| {
            out[40 + 4 * i..44 + 4 * i].copy_from_slice(&h.to_le_bytes());
        });
        out
    }

    fn decode(raw: &[u8]) -> Hello {
        let at = |at: usize, n: usize| raw[at..at + n].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        let half = |i: usize| at(40 + 4 * i, 4) as usize;
        Hello {
            generation: at(0, 8),
            comm: at(8, 8),
            word: at(16, 8),
            shm_word: at(24, 8),
            host: at(32, 8),
            from: half(0),
            to: half(1),
            size: half(2),
            lane: half(3),
            shm: (half(4) as u32, half(5) as u32),
        }
    }
}

/// Answers to a hello: a byte and the answering rank's generation.
const WELCOME: u8 = 0;
const WRONG_GENERATION: u8 = 1;
const WRONG_GROUP: u8 = 2;
/// Welcome, and the offered memory is mapped.
const WELCOME_SHARED: u8 = 3;
const WRONG_SECRET: u8 = 4;
/// Both ranks knock at each other's door at once, and this one's connection is the one that counts.
pub(super) const BUSY: u8 = 5;
const ANSWER: usize = 9;

/// Purposes of proofs: one end's is no proof of the other's.
const CONNECTS: &str = "a rank connects";
const ACCEPTS: &str = "a rank accepts";

/// What there is of the connections with one peer.
#[derive(Default)]
pub(super) struct Found {
    pub streams: [Option<Stream>; N_LANES],
    pub shm: Option<Lanes>,
    /// The peer has mapped what it was offered.
    pub takes: bool,
    pub host: u64,
}

/// Connects all lanes and says who this is. Also tells whether the offered memory was taken. `Ok(None)`: the peer is connecting
/// to this rank. `stop` says why it need not be tried any longer.
pub(super) fn introduce(
    address: SocketAddr,
    hellos: &[Hello; N_LANES],
    credentials: &Credentials,
    deadline: Instant,
    stop: &dyn Fn() -> Option<String>,
) -> Result<Option<Found>, String> {
    let mut knocks = 0;
    loop {
        match try_introduce(address, hellos, credentials, deadline, stop) {
            // A crowd of strangers at the door may cost a rank its place.
            Err(Refusal { closed: true, cause }) if knocks < KNOCKS && Instant::now() < deadline => {
                knocks += 1;
                interrupt::pause(PAUSE).map_err(|_| cause)?;
            }
            other => return other.map_err(|refusal| refusal.cause),
        }
    }
}

/// Takes steps that each wait for the peer, until one is the last, looking now and then whether that is still wanted.
fn patiently(
    stream: &Stream,
    deadline: Instant,
    stop: &dyn Fn() -> Option<String>,
    mut step: impl FnMut() -> std::io::Result<bool>,
) -> Result<(), Refusal> {
    loop {
        stream.socket().set_read_timeout(Some(left(deadline)?.min(interrupt::PERIOD)))?;
        match step() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                let cause = stop().or_else(|| interrupt::interrupted().then(|| interrupt::CAUSE.to_owned()));
                cause.map_or(Ok(()), Err)?;
            }
            Err(e) => return Err(e.into()),
        }
    }
}

/// Fills `buf`.
fn hear_all(
    stream: &Stream,
    buf: &mut [u8],
    deadline: Instant,
    stop: &dyn Fn() -> Option<String>,
) -> Result<(), Refusal> {
    let mut at = 0;
    patiently(stream, deadline, stop, || match stream.read(&mut buf[at..])? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        n => {
            at += n;
            Ok(at == buf.len())
        }
    })
}

fn left(deadline: Instant) -> Result<Duration, String> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err("timed out".to_owned()),
        left => Ok(left),
    }
}

struct Refusal {
    cause: String,
    /// The connection ended without an answer.
    closed: bool,
}

impl From<std::io::Error> for Refusal {
    fn from(e: std::io::Error) -> Refusal {
        let closed = matches!(
            e.kind(),
            ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe
                | ErrorKind::ConnectionAborted
        );
        match Fault::of(&e) {
            Some(fault) => Refusal { cause: format!("it {fault}"), closed },
            None => Refusal { cause: format!("no answer to the greeting: {e}"), closed },
        }
    }
}

impl From<String> for Refusal {
    fn from(cause: String) -> Refusal {
        Refusal { cause, closed: false }
    }
}

/// Every lane goes through each step before the next one: the peer answers them together.
fn try_introduce(
    address: SocketAddr,
    hellos: &[Hello; N_LANES],
    credentials: &Credentials,
    deadline: Instant,
    stop: &dyn Fn() -> Option<String>,
) -> Result<Option<Found>, Refusal> {
    let mut streams = Vec::with_capacity(N_LANES);
    for _ in hellos {
        let socket = TcpStream::connect_timeout(&address, left(deadline)?).map_err(|e| e.to_string())?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(left(deadline)?))?;
        let stream = Stream::connected(socket, credentials.tls.as_ref(), Load::Tensors)?;
        stream.flush();
        streams.push(stream);
    }
    let mut lanes = Vec::with_capacity(N_LANES);
    for stream in streams {
        patiently(&stream, deadline, stop, || stream.handshake())?;
        let (key, mine) = (stream.bound(&credentials.key)?, nonce().map_err(|e| e.to_string())?);
        stream.send_all(&[&MAGIC[..], &mine].concat())?;
        lanes.push((stream, key, mine, [0; NONCE]));
    }
    for ((stream, key, mine, theirs), hello) in lanes.iter_mut().zip(hellos) {
        hear_all(stream, theirs, deadline, stop)?;
        if *theirs == NEEDS_TLS {
            return Err(NO_TLS.to_owned().into());
        }
        let hello = hello.encode();
        stream.send_all(&[&hello[..], &key.tag(CONNECTS, &[&mine[..], &theirs[..], &hello])].concat())?;
    }
    let mut found = Found::default();
    for (lane, ((stream, key, mine, theirs), hello)) in lanes.into_iter().zip(hellos).enumerate() {
        let mut answer = [0; ANSWER + TAG];
        hear_all(&stream, &mut answer, deadline, stop)?;
        let (answer, tag) = answer.split_at(ANSWER);
        let generation = answer[1..].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        match answer[0] {
            WELCOME | WELCOME_SHARED => {}
            WRONG_GENERATION => {
                return Err(format!("it is of generation {generation}, this process of {}", hello.generation).into());
            }
            WRONG_SECRET => {
                let between = credentials.tls.as_ref().map_or("", |_| ", or somebody is between them");
                return Err(format!("it refused this rank: their job secrets differ{between}; {HOW}").into());
            }
            BUSY => {}
            _ => return Err("it refused the greeting: another job or another group answers there".to_owned().into()),
        }
        if !key.proves(tag, ACCEPTS, &[&mine[..], &theirs[..], &hello.encode(), answer]) {
            return Err(format!("what answers there does not know this job's secret; {HOW}").into());
        }
        if answer[0] == BUSY {
            return Ok(None);
        }
        found.takes |= answer[0] == WELCOME_SHARED;
        found.streams[lane] = Some(stream);
    }
    Ok(Some(found))
}

/// Somebody who has connected and not yet been let in.
struct Stranger {
    stream: Stream,
    from: IpAddr,
    since: Instant,
    heard: Vec<u8>,
    /// Theirs and ours, once they were exchanged.
    nonces: Option<([u8; NONCE], [u8; NONCE])>,
}

enum Next {
    /// There is more to hear.
    Wait(Stranger),
    Member(Arrival),
    Refused(Cow<'static, str>),
    Gone,
}

/// Waits until all lanes of all higher ranks are there. Strangers are heard, refused, and cannot hold anything up.
pub(super) fn accept(door: &mut Door, found: &mut [Found], deadline: Instant) -> Result<(), String> {
    let me = door.me;
    // Higher ranks connect to lower ones.
    let admit = |from: usize| if from > me.to { Ok(()) } else { Err(WRONG_GROUP) };
    loop {
        let absent = |r: &usize| found[*r].streams.iter().any(Option::is_none);
        let missing: Vec<usize> = (me.to + 1..me.size).filter(absent).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("timed out waiting for rank(s) {missing:?} to connect{}", door.refusals()));
        }
        let mut fds = Vec::new();
        door.watch(&mut fds);
        match poll(&mut fds, Some(&timespec(left.min(interrupt::PERIOD)))) {
            Ok(n) if n > 0 => {}
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                if interrupt::interrupted() {
                    return Err(interrupt::CAUSE.to_owned());
                }
            }
            Err(e) => return Err(e.to_string()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for Arrival { from, lane, stream, shm, host } in door.turn(&ready, &admit) {
            found[from].streams[lane] = Some(stream);
            found[from].host = host;
            found[from].shm = found[from].shm.take().or(shm);
        }
    }
}

/// Where a rank listens, and those who have knocked there.
pub(super) struct Door {
    listener: TcpListener,
    me: Hello,
    credentials: Credentials,
    strangers: Vec<Stranger>,
    refused: HashMap<(IpAddr, Cow<'static, str>), usize>,
}

/// One connection of another rank.
pub(super) struct Arrival {
    pub from: usize,
    pub lane: usize,
    pub stream: Stream,
    pub shm: Option<Lanes>,
    pub host: u64,
}

impl Door {
    /// `me.to` is this rank.
    pub fn open(listener: TcpListener, me: Hello, credentials: Credentials) -> std::io::Result<Door> {
        listener.set_nonblocking(true)?;
        Ok(Door { listener, me, credentials, strangers: Vec::new(), refused: HashMap::new() })
    }

    /// Adds what is to be polled before a turn.
    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.listener, PollFlags::IN));
        fds.extend(self.strangers.iter().map(|Stranger { stream, .. }| {
            let out = if stream.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(stream, PollFlags::IN | out)
        }));
    }

    /// Hears who has something to say and lets in who knocks. `ready` is what was found of the descriptors of `watch`; `admit`
    /// has the last word about a rank that proved to be one, or says how it is refused.
    pub fn turn(&mut self, ready: &[bool], admit: &dyn Fn(usize) -> Result<(), u8>) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let most = MAX_STRANGERS + N_LANES * self.me.size;
        let mut waiting = Vec::with_capacity(self.strangers.len());
        for (stranger, ready) in self.strangers.drain(..).zip(&ready[1..]) {
            let from = stranger.from;
            match if *ready { stranger.hear(&self.me, &self.credentials, admit) } else { Next::Wait(stranger) } {
                Next::Wait(stranger) if stranger.since.elapsed() < PATIENCE => waiting.push(stranger),
                Next::Member(arrival) => arrivals.push(arrival),
                Next::Refused(why) if self.refused.len() < MAX_STRANGERS => {
                    *self.refused.entry((from, why)).or_default() += 1;
                }
                _ => {}
            }
        }
        self.strangers = waiting;
        while ready[0]
            && let Ok((stream, from)) = self.listener.accept()
        {
            if self.strangers.len() >= most {
                self.strangers.remove(least_welcome(&self.strangers));
            }
            if stream.set_nonblocking(true).is_ok()
                && stream.set_nodelay(true).is_ok()
                && let Ok(stream) = Stream::accepted(stream, self.credentials.tls.as_ref(), Load::Tensors)
            {
                let (since, heard, nonces) = (Instant::now(), Vec::new(), None);
                self.strangers.push(Stranger { stream, from: from.ip(), since, heard, nonces });
            }
        }
        arrivals
    }

    /// Whom it refused, as the end of a sentence.
    pub fn refusals(&self) -> String {
        let mut said: Vec<String> =
            self.refused.iter().map(|((from, why), n)| format!("{n} from {from} {why}")).collect();
        said.sort();
        if said.is_empty() { String::new() } else { format!("; connections were refused: {}", said.join(", ")) }
    }
}

/// The one that has waited longest of the address that most are from.
fn least_welcome(strangers: &[Stranger]) -> usize {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    strangers.iter().for_each(|stranger| *counts.entry(stranger.from).or_default() += 1);
    let most = counts.values().max().copied().unwrap_or(0);
    strangers.iter().position(|stranger| counts[&stranger.from] == most).unwrap_or(0)
}

impl Stranger {
    fn hear(mut self, me: &Hello, credentials: &Credentials, admit: &dyn Fn(usize) -> Result<(), u8>) -> Next {
        let wanted = if self.nonces.is_none() { OPENING } else { Hello::LEN + TAG };
        let mut buf = [0; Hello::LEN + TAG];
        while self.heard.len() < wanted {
            match self.stream.read(&mut buf[..wanted - self.heard.len()]) {
                Ok(0) => return Next::Gone,
                Ok(n) => self.heard.extend_from_slice(&buf[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Next::Wait(self);
                }
                Err(e) => {
                    return Fault::of(&e)
                        .map_or(Next::Gone, |fault| Next::Refused(format!("that {}", fault.words).into()));
                }
            }
        }
        match (self.nonces, self.stream.bound(&credentials.key)) {
            (None, _) => self.challenge(),
            (Some((theirs, mine)), Ok(key)) => self.judge(me, &key, admit, &theirs, &mine),
            (Some(_), Err(_)) => Next::Gone,
        }
    }

    fn challenge(mut self) -> Next {
        let (magic, theirs) = self.heard.split_at(MAGIC.len());
        let (Ok(theirs), Ok(mine)) = (theirs.try_into(), nonce()) else { return Next::Gone };
        if is_hello(magic[0]) {
            let _ = self.stream.send_all(&NEEDS_PLAIN);
            return Next::Refused("with TLS, which this process does not use (ONEFLOW_TLS)".into());
        }
        // These few bytes fit any socket's empty buffer: no partial write.
        if magic != MAGIC || self.stream.send_all(&mine).is_err() {
            return Next::Refused("that spoke another protocol".into());
        }
        self.nonces = Some((theirs, mine));
        self.heard.clear();
        Next::Wait(self)
    }

    fn judge(
        self,
        me: &Hello,
        key: &Key,
        admit: &dyn Fn(usize) -> Result<(), u8>,
        theirs: &[u8; NONCE],
        mine: &[u8; NONCE],
    ) -> Next {
        let (said, tag) = self.heard.split_at(Hello::LEN);
        let hello = Hello::decode(said);
        let verdict = match key.proves(tag, CONNECTS, &[theirs, mine, said]) {
            true => judge(me, &hello).and_then(|found| admit(found.0).map(|()| found)),
            false => Err(WRONG_SECRET),
        };
        let offered = verdict.is_ok() && hello.shm != (0, 0);
        let shm = offered.then(|| Lanes::accept(hello.shm.0, hello.shm.1, me.size, hello.shm_word).ok()).flatten();
        let mut answer = [0; ANSWER];
        let welcome = if shm.is_some() { WELCOME_SHARED } else { WELCOME };
        answer[0] = verdict.map_or_else(|refusal| refusal, |_| welcome);
        answer[1..].copy_from_slice(&me.generation.to_le_bytes());
        // Who does not know the secret gets nothing that it could try guesses on.
        let proof = match verdict {
            Err(refusal) if refusal != BUSY => [0; TAG],
            _ => key.tag(ACCEPTS, &[theirs, mine, said, &answer]),
        };
        let told = self.stream.send_all(&[&answer[..], &proof].concat());
        match (verdict, told) {
            (Ok((from, lane)), Ok(())) => {
                Next::Member(Arrival { from, lane, stream: self.stream, shm, host: hello.host })
            }
            (Ok(_), Err(_)) => Next::Gone,
            (Err(BUSY), _) => Next::Gone,
            (Err(WRONG_SECRET), _) => Next::Refused("with another job secret or none".into()),
            (Err(_), _) => Next::Refused("of another job, group or attempt".into()),
        }
    }
}

fn judge(me: &Hello, hello: &Hello) -> Result<(usize, usize), u8> {
    if hello.word != me.word || hello.comm != me.comm || hello.to != me.to || hello.size != me.size {
        return Err(WRONG_GROUP);
    }
    if hello.generation != me.generation {
        return Err(WRONG_GENERATION);
    }
    if hello.from == me.to || hello.from >= me.size || hello.lane >= N_LANES {
        return Err(WRONG_GROUP);
    }
    Ok((hello.from, hello.lane))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::auth::{Access, Secret};
    use crate::tls::Tls;

    const LONG: Duration = Duration::from_secs(60);

    fn me() -> Hello {
        let (shm, shm_word) = ((4321, 17), u64::MAX - 5);
        Hello { generation: 3, comm: 5, word: 7, from: 0, to: 1, size: 4, lane: 0, shm, shm_word, host: 9 }
    }

    #[test]
    fn only_members_of_this_very_group_are_let_in() {
        let me = me();
        let peer = Hello { from: 2, lane: 1, ..me };
        let sent = |hello: Hello| judge(&me, &Hello::decode(&hello.encode()));
        assert_eq!(sent(peer), Ok((2, 1)));
        let heard = Hello::decode(&peer.encode());
        assert_eq!((heard.shm, heard.shm_word, heard.host), (me.shm, me.shm_word, me.host));
        assert_eq!(sent(Hello { generation: 2, ..peer }), Err(WRONG_GENERATION));
        for bad in [
            Hello { word: 8, ..peer },
            Hello { comm: 6, ..peer },
            Hello { to: 0, ..peer },
            Hello { size: 5, ..peer },
            Hello { from: 1, ..peer },
            Hello { from: 4, ..peer },
            Hello { lane: 3, ..peer },
        ] {
            assert_eq!(sent(bad), Err(WRONG_GROUP));
        }
    }

    fn key(text: &str) -> Credentials {
        Credentials { key: Access::Secret(Secret::new(text).unwrap()).key(), tls: None }
    }

    /// Rank 2 of three, the last, is let in by rank 1, which `door` has before that.
    fn let_in(theirs: &Credentials, door: impl FnOnce(SocketAddr) + Send) -> (Result<(), String>, Result<(), String>) {
        let mine = key("the secret of this job");
        let_in_at(theirs, &mine, |address| {
            door(address);
            address
        })
    }

    /// As `let_in`, with the credentials of rank 1, and the address at which rank 2 knocks.
    fn let_in_at(
        theirs: &Credentials,
        mine: &Credentials,
        door: impl FnOnce(SocketAddr) -> SocketAddr,
    ) -> (Result<(), String>, Result<(), String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let me = Hello { size: 3, shm: (0, 0), ..me() };
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let mut found: Vec<Found> = (0..3).map(|_| Found::default()).collect();
                let mut door = Door::open(listener, me, mine.clone()).unwrap();
                accept(&mut door, &mut found, Instant::now() + LONG / 20)
            });
            let address = door(address);
            let hellos = [0, 1, 2].map(|lane| Hello { from: 2, lane, ..me });
            let outside = introduce(address, &hellos, theirs, Instant::now() + LONG, &|| None).map(drop);
            (inside.join().unwrap(), outside)
        })
    }

    #[test]
    fn both_ends_must_know_the_secret() {
        let right = key("the secret of this job");
        let (inside, outside) = let_in(&right, |_| {});
        assert_eq!((inside, outside), (Ok(()), Ok(())));
        for wrong in [key("the secret of that job"), Credentials { key: Access::OneHost.key(), tls: None }] {
            let (inside, outside) = let_in(&wrong, |_| {});
            let (inside, outside) = (inside.unwrap_err(), outside.unwrap_err());
            assert!(
                outside.contains("their job secrets differ") && outside.contains("ONEFLOW_JOB_SECRET"),
                "{outside}"
            );
            assert!(inside.contains("3 from 127.0.0.1 with another job secret or none"), "{inside}");
        }
        // Who says welcome without knowing the secret is no rank.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let streams: Vec<TcpStream> = (0..N_LANES).map(|_| listener.accept().unwrap().0).collect();
            for mut stream in &streams {
                stream.read_exact(&mut [0; OPENING]).unwrap();
                stream.write_all(&[1; NONCE]).unwrap();
            }
            for mut stream in &streams {
                stream.read_exact(&mut [0; Hello::LEN + TAG]).unwrap();
                stream.write_all(&[WELCOME; ANSWER + TAG]).unwrap();
            }
        });
        let error = introduce(address, &[me(); N_LANES], &right, Instant::now() + LONG, &|| None).err().unwrap();
        assert!(error.contains("does not know this job's secret"), "{error}");
        thread.join().unwrap();
    }

    /// Somebody who takes connections, and makes others to `address` over which he passes on what he has read.
    fn stand_between(address: SocketAddr, tls: Tls) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for _ in 0..N_LANES {
                let (one, other) = (listener.accept().unwrap().0, TcpStream::connect(address).unwrap());
                let one = Stream::accepted(one, Some(&tls), Load::Words).unwrap();
                let other = Stream::connected(other, Some(&tls), Load::Words).unwrap();
                while !other.handshake().unwrap() {}
                std::thread::spawn(move || {
                    let mut buf = [0; 4096];
                    // The greeting is a dialogue: each end speaks in its turn.
                    for turn in [OPENING, NONCE, Hello::LEN + TAG, ANSWER + TAG] {
                        let (from, to) =
                            if [OPENING, Hello::LEN + TAG].contains(&turn) { (&one, &other) } else { (&other, &one) };
                        let mut at = 0;
                        while at < turn {
                            match from.read(&mut buf[at..turn]) {
                                Ok(n @ 1..) => at += n,
                                _ => return,
                            }
                        }
                        if to.send_all(&buf[..turn]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        here
    }

    #[test]
    fn a_proof_holds_in_one_tls_session_alone() {
        let own = || Tls::with_own_key().unwrap();
        let secret = |tls| Credentials { tls: Some(tls), ..key("the secret of this job") };
        let (inside, outside) = let_in_at(&secret(own()), &secret(own()), |address| address);
        assert_eq!((inside, outside), (Ok(()), Ok(())));
        let (inside, outside) = let_in_at(&secret(own()), &secret(own()), |address| stand_between(address, own()));
        let (inside, outside) = (inside.unwrap_err(), outside.unwrap_err());
        assert!(outside.contains("their job secrets differ, or somebody is between them"), "{outside}");
        assert!(inside.contains("with another job secret or none"), "{inside}");
    }

    #[test]
    fn tls_at_one_end_alone_is_named_at_both() {
        let plain = || key("the secret of this job");
        let tls = || Credentials { tls: Some(Tls::with_own_key().unwrap()), ..plain() };
        let (inside, outside) = let_in_at(&plain(), &tls(), |address| address);
        let (inside, outside) = (inside.unwrap_err(), outside.unwrap_err());
        assert!(inside.contains("from 127.0.0.1 that uses no TLS, which this process demands"), "{inside}");
        assert!(outside.contains("it demands TLS, which this process does not use: set ONEFLOW_TLS=1"), "{outside}");
        let (inside, outside) = let_in_at(&tls(), &plain(), |address| address);
        let (inside, outside) = (inside.unwrap_err(), outside.unwrap_err());
        assert!(inside.contains("with TLS, which this process does not use (ONEFLOW_TLS)"), "{inside}");
        assert!(outside.contains("it does not use TLS, which this process demands"), "{outside}");
    }

    #[test]
    fn a_replayed_greeting_and_a_crowd_are_kept_out() {
        let right = key("the secret of this job");
        let (inside, outside) = let_in(&right, |address| {
            // More than have room, who say nothing.
            let silent: Vec<_> = (0..MAX_STRANGERS + 44).map(|_| TcpStream::connect(address).unwrap()).collect();
            std::thread::sleep(Duration::from_millis(50));
            // What a rank once said, to the byte, beside another number of this end.
            let theirs = [9; NONCE];
            let hello = Hello { from: 2, size: 3, shm: (0, 0), ..me() }.encode();
            let said = [&hello[..], &right.key.tag(CONNECTS, &[&theirs, &[8; NONCE], &hello])].concat();
            let mut replay = TcpStream::connect(address).unwrap();
            replay.write_all(&[&MAGIC[..], &theirs].concat()).unwrap();
            replay.read_exact(&mut [0; NONCE]).unwrap();
            replay.write_all(&said).unwrap();
            let mut answer = [0; ANSWER + TAG];
            replay.read_exact(&mut answer).unwrap();
            assert_eq!(answer[0], WRONG_SECRET);
            assert_eq!(answer[ANSWER..], [0; TAG]);
            // Another protocol, and sizes beyond all measure.
            for words in [&b"GET / HTTP/1.1\r\n\r\n                  "[..], &[0xff; 4096]] {
                let mut stream = TcpStream::connect(address).unwrap();
                let _ = stream.write_all(words);
            }
            std::mem::forget(silent);
        });
        assert_eq!((inside, outside), (Ok(()), Ok(())));
    }
}
