//! How the connections of a job are protected: who may join it (`auth`), and whether they are encrypted (`tls`).

use oneflow_base::{Error, Result};

use crate::auth::Access;
use crate::stream::Credentials;
use crate::tls::Tls;

/// What a process demands of its connections, and shows on them. The same on all ranks.
#[derive(Clone, Debug)]
pub struct Security {
    pub access: Access,
    /// `None`: nothing is encrypted.
    pub tls: Option<Tls>,
}

impl Security {
    /// What this process's environment says.
    pub fn from_env() -> Result<Security> {
        Security::from_vars(|name| std::env::var(name).ok())
    }

    /// From any source of variables.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Security> {
        let (access, tls) = (Access::from_vars(&var)?, Tls::from_vars(&var)?);
        let access = match (access, &tls) {
            (access @ Access::Secret(_), _) | (access, None) => access,
            (_, Some(tls)) if tls.has_certificates() => Access::Certificate,
            (_, Some(_)) => {
                return Err(Error::value(
                    "ONEFLOW_TLS=1 needs a job secret or certificates: without them nobody knows who is at the other end of an \
                     encrypted connection; set ONEFLOW_JOB_SECRET (or ONEFLOW_JOB_SECRET_FILE) to the same random text on all \
                     ranks, or ONEFLOW_TLS_CA, ONEFLOW_TLS_CERT and ONEFLOW_TLS_KEY",
                ));
            }
        };
        Ok(Security { access, tls })
    }

    /// What goes with every connection.
    pub(crate) fn credentials(&self) -> Credentials {
        Credentials { key: self.access.key(), tls: self.tls.clone() }
    }
}

impl From<Access> for Security {
    /// Without TLS.
    fn from(access: Access) -> Security {
        Security { access, tls: None }
    }
}
