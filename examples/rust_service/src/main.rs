//! `rust_service directory [127.0.0.1:8000] [--table input=folder[,folder...]@snapshot] [--deltas input=folder]`: serves what
//! `oneflow.save(graph, directory)` wrote, until SIGTERM or SIGINT.
//!
//! With `--table` an input takes rows of an embedding table, the folders being those of the ranks that saved the snapshot, and
//! requests give ids for it. Deltas that come to a folder (`python -m oneflow.one_embedding delta`, moved there whole) are taken
//! over within a second.

use oneflow_embedding::Serving;
use oneflow_runtime::{Error, Pool, Result};
use oneflow_rust_service::{Follower, Limits, Service, Tables};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long requests under way may take when it is told to end.
const GRACE: Duration = Duration::from_secs(30);
/// How often folders of deltas are looked at.
const OFTEN: Duration = Duration::from_secs(1);
const USAGE: &str =
    "usage: rust_service directory [address] [--table input=folder,...@snapshot] [--deltas input=folder]";

/// What the command line says.
struct Wanted {
    /// Directory and address.
    places: Vec<String>,
    tables: HashMap<String, Arc<Serving>>,
    followers: Vec<Follower>,
}

fn wanted(mut args: impl Iterator<Item = String>) -> Result<Wanted> {
    let (mut places, mut tables, mut deltas) = (Vec::new(), HashMap::new(), Vec::new());
    while let Some(arg) = args.next() {
        if arg != "--table" && arg != "--deltas" {
            places.push(arg);
            continue;
        }
        let value = args.next().ok_or_else(|| Error::value(USAGE))?;
        let (input, place) = value.split_once('=').ok_or_else(|| Error::value(USAGE))?;
        if arg == "--deltas" {
            deltas.push((input.to_owned(), place.to_owned()));
            continue;
        }
        let (folders, snapshot) = place.rsplit_once('@').ok_or_else(|| Error::value(USAGE))?;
        let folders: Vec<PathBuf> = folders.split(',').map(PathBuf::from).collect();
        tables.insert(input.to_owned(), Arc::new(Serving::open(&folders, snapshot)?));
    }
    let follower = |(input, folder): (String, String)| {
        let serving = tables.get(&input);
        let serving = serving.ok_or_else(|| Error::value(format!("--deltas {input}: there is no --table {input}")))?;
        Ok(Follower::new(Path::new(&folder), serving.clone()))
    };
    let followers = deltas.into_iter().map(follower).collect::<Result<Vec<_>>>()?;
    if places.is_empty() || places.len() > 2 {
        return Err(Error::value(USAGE));
    }
    Ok(Wanted { places, tables, followers })
}

fn main() -> Result<()> {
    let Wanted { places, tables, mut followers } = wanted(std::env::args().skip(1))?;
    let path = &places[0];
    let address = places.get(1).map_or("127.0.0.1:8000", String::as_str);
    // Before the first request: none is cut short.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| Error::runtime(format!("signals: {e}")))?;
    let limits = Limits { runners: 1, wait: Duration::from_millis(2), queue: 4096 };
    let pool = Pool::load(path, limits.runners)?;
    let tables = Tables::new(pool.plan(), tables)?;
    let service = Service::start_with_tables(pool, tables, address, limits)?;
    if !followers.is_empty() {
        std::thread::spawn(move || {
            loop {
                for (path, done) in followers.iter_mut().flat_map(Follower::look) {
                    match done {
                        Ok(()) => eprintln!("took over {}", path.display()),
                        Err(e) => eprintln!("left {} out: {e}", path.display()),
                    }
                }
                std::thread::sleep(OFTEN);
            }
        });
    }
    eprintln!("serving {path} at http://{}", service.address());
    signals.forever().next();
    // A second signal ends it at once.
    std::thread::spawn(move || signals.forever().next().map(|_| std::process::exit(1)));
    match service.shut_down(GRACE) {
        true => eprintln!("ended"),
        false => eprintln!("ended after {GRACE:?} with requests that had not come in whole"),
    }
    Ok(())
}
