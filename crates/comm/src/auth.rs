//! Who may meet whom: the job's secret, and the proof between two processes that both know it.
//!
//! Both ends of a connection send a random number and answer with HMAC-SHA256 of both numbers and of what they say, so a
//! recorded handshake is worth nothing later and no end sends the secret. The handshake keeps strangers out. What is sent
//! afterwards it neither hides nor protects from somebody who controls the network in between: that takes TLS (`tls`), to
//! whose session the proof is then bound.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use oneflow_base::{Error, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The secret itself, or the file that holds it.
const SECRET: &str = "ONEFLOW_JOB_SECRET";
const SECRET_FILE: &str = "ONEFLOW_JOB_SECRET_FILE";
/// `1`: ranks of several hosts meet without a secret.
const INSECURE: &str = "ONEFLOW_INSECURE";
/// A shorter secret can be guessed.
const SHORTEST: usize = 16;
const LONGEST: usize = 4096;

/// What somebody must do who is refused for the lack of a secret.
pub(crate) const HOW: &str = "set ONEFLOW_JOB_SECRET (or ONEFLOW_JOB_SECRET_FILE) to the same random text on all ranks, for \
     example that of `openssl rand -hex 32`; on a network that nobody else reaches, ONEFLOW_INSECURE=1 does without";

pub(crate) const NONCE: usize = 32;
pub(crate) const TAG: usize = 32;

/// Who may join a job and use its store.
#[derive(Clone, Debug)]
pub enum Access {
    /// Processes that know the secret, on any host.
    Secret(Secret),
    /// Processes that have a certificate of the job's authority, on any host.
    Certificate,
    /// Processes of this host.
    OneHost,
    /// Whoever reaches the ports.
    Anybody,
}

impl Access {
    /// What this process's environment says.
    pub fn from_env() -> Result<Access> {
        Access::from_vars(|name| std::env::var(name).ok())
    }

    /// From any source of variables.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Access> {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        let secret = match (var(SECRET), var(SECRET_FILE)) {
            (Some(_), Some(_)) => {
                return Err(Error::value(format!("{SECRET} and {SECRET_FILE} are both set: set one of them")));
            }
            (Some(text), None) => Some(Secret::new(&text).map_err(|cause| Error::value(format!("{SECRET} {cause}")))?),
            (None, Some(path)) => {
                Some(read(Path::new(&path)).map_err(|cause| Error::value(format!("{SECRET_FILE}: '{path}' {cause}")))?)
            }
            (None, None) => None,
        };
        let insecure = match var(INSECURE).as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => return Err(Error::value(format!("{INSECURE} is '{other}', expected 0 or 1"))),
        };
        Ok(match secret {
            Some(secret) => Access::Secret(secret),
            None if insecure => Access::Anybody,
            None => Access::OneHost,
        })
    }

    /// The key of handshakes. Without a secret everybody knows it.
    pub(crate) fn key(&self) -> Key {
        match self {
            Access::Secret(secret) => Key(secret.0.clone()),
            _ => Key(Vec::new()),
        }
    }
}

/// The secret of a job. It is never printed.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// `Err`: the end of a sentence that begins with where the text is from.
    pub fn new(text: &str) -> Result<Secret, String> {
        let text = text.trim();
        match text.len() {
            n if n < SHORTEST => Err(format!("has {n} characters; a secret has at least {SHORTEST}")),
            n if n > LONGEST => Err(format!("has {n} characters; a secret has at most {LONGEST}")),
            _ => Ok(Secret(text.as_bytes().to_vec())),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

fn read(path: &Path) -> Result<Secret, String> {
    let file = std::fs::File::open(path).map_err(|e| format!("cannot be opened: {e}"))?;
    let meta = file.metadata().map_err(|e| format!("cannot be opened: {e}"))?;
    if !meta.is_file() {
        return Err("is no file".to_owned());
    }
    if meta.mode() & 0o077 != 0 {
        return Err(format!("can be read by other users (mode {:04o}): chmod 600", meta.mode() & 0o7777));
    }
    let mut text = String::new();
    file.take(LONGEST as u64 + 2).read_to_string(&mut text).map_err(|e| format!("cannot be read: {e}"))?;
    Secret::new(&text)
}

/// What tags are made with.
#[derive(Clone)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// A proof of knowing the secret, for one purpose and these words.
    pub fn tag(&self, purpose: &str, words: &[&[u8]]) -> [u8; TAG] {
        // Lengths keep words apart.
        let mut said = Vec::new();
        for word in [b"oneflow job secret 1", purpose.as_bytes()].into_iter().chain(words.iter().copied()) {
            said.extend_from_slice(&(word.len() as u64).to_le_bytes());
            said.extend_from_slice(word);
        }
        hmac_sha256(&self.0, &said)
    }

    /// The key of proofs that hold in one TLS session alone.
    pub fn bound(&self, session: &[u8]) -> Key {
        Key(self.tag("a TLS session", &[session]).to_vec())
    }

    /// Returns true if `tag` is that proof; takes the same time whether it is or not.
    pub fn proves(&self, tag: &[u8], purpose: &str, words: &[&[u8]]) -> bool {
        self.tag(purpose, words)[..].ct_eq(tag).into()
    }
}

/// RFC 2104 over SHA-256.
fn hmac_sha256(key: &[u8], said: &[u8]) -> [u8; TAG] {
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    match key.len() {
        n if n <= BLOCK => block[..n].copy_from_slice(key),
        _ => block[..TAG].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(said).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().into()
}

/// A number that nobody can foresee.
pub(crate) fn nonce() -> Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    getrandom::getrandom(&mut nonce).map_err(|e| Error::runtime(format!("the system gives no random numbers: {e}")))?;
    Ok(nonce)
}

/// A name of this host and its network, the same for all its processes: two that share it reach each other on loopback.
pub(crate) fn host_name() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let net = std::fs::metadata("/proc/self/ns/net").map(|meta| meta.ino()).unwrap_or_default();
    format!("{}.{net}", boot.trim())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    fn access(vars: &[(&str, &str)]) -> Result<Access> {
        Access::from_vars(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn the_environment_says_who_may_join() {
        assert!(matches!(access(&[]).unwrap(), Access::OneHost));
        assert!(matches!(access(&[(SECRET, ""), (INSECURE, "0")]).unwrap(), Access::OneHost));
        assert!(matches!(access(&[(INSECURE, "1")]).unwrap(), Access::Anybody));
        let secret = "0123456789abcdef";
        // A secret is used wherever there is one.
        let found = access(&[(SECRET, secret), (INSECURE, "1")]).unwrap();
        assert!(matches!(found, Access::Secret(_)) && !format!("{found:?}").contains(secret));
        for (vars, words) in [
            (&[(SECRET, "short")][..], "ONEFLOW_JOB_SECRET has 5 characters"),
            (&[(SECRET, secret), (SECRET_FILE, "f")], "are both set"),
            (&[(SECRET_FILE, "/no/such")], "'/no/such' cannot be opened"),
            (&[(SECRET_FILE, "/proc")], "is no file"),
            (&[(INSECURE, "yes")], "expected 0 or 1"),
        ] {
            let error = access(vars).unwrap_err();
            assert!(error.text().contains(words) && !error.text().contains(secret), "{error}");
        }
    }

    #[test]
    fn a_secret_s_file_is_its_owner_s_alone() {
        let path = std::env::temp_dir().join(format!("comm-secret-{}", std::process::id()));
        let write = |mode| {
            let _ = std::fs::remove_file(&path);
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).unwrap();
            file.write_all(b"0123456789abcdef\n").unwrap();
            access(&[(SECRET_FILE, path.to_str().unwrap())])
        };
        let Access::Secret(found) = write(0o600).unwrap() else { panic!() };
        assert_eq!(found.0, b"0123456789abcdef");
        let error = write(0o640).unwrap_err();
        assert!(error.text().contains("mode 0640") && error.text().contains("chmod 600"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_tag_proves_one_secret_one_purpose_and_these_words() {
        let key = |text: &str| Access::Secret(Secret::new(text).unwrap()).key();
        let (mine, other) = (key("0123456789abcdef"), key("0123456789abcdeg"));
        let (a, b) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(a, b);
        let tag = mine.tag("connect", &[&a, &b]);
        assert!(mine.proves(&tag, "connect", &[&a, &b]));
        assert!(!other.proves(&tag, "connect", &[&a, &b]) && !Access::OneHost.key().proves(&tag, "connect", &[&a, &b]));
        assert!(!mine.proves(&tag, "welcome", &[&a, &b]) && !mine.proves(&tag, "connect", &[&b, &a]));
        assert!(!mine.proves(&tag, "connect", &[&[a, b].concat()]) && !mine.proves(&tag[..31], "connect", &[&a, &b]));
    }

    #[test]
    fn the_mac_is_that_of_rfc_4231() {
        let long = [0xaa; 131];
        let cases: [(&[u8], &[u8], u128); 5] = [
            (&[0x0b; 20], b"Hi There", 0xb034_4c61_d8db_3853_5ca8_afce_af0b_f12b),
            (b"Jefe", b"what do ya want for nothing?", 0x5bdc_c146_bf60_754e_6a04_2426_0895_75c7),
            (&[0xaa; 20], &[0xdd; 50], 0x773e_a91e_3680_0e46_854d_b8eb_d091_81a7),
            (&long, b"Test Using Larger Than Block-Size Key - Hash Key First", 0x60e4_3159_1ee0_b67f_0d8a_26aa_cbf5_b77f),
            (
                &long,
                b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be \
                  hashed before being used by the HMAC algorithm.",
                0x9b09_ffa7_1b94_2fcb_2763_5fbc_d5b0_e944,
            ),
        ];
        for (key, said, expected) in cases {
            assert_eq!(hmac_sha256(key, said)[..16], expected.to_be_bytes(), "{}", String::from_utf8_lossy(said));
        }
    }
}
