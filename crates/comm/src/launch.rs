//! Which process of which job this is, and where the job meets: read from what launchers put into the environment.
//!
//! torchrun's four variables come first. Without `RANK` the place is that of the first engine in `ENGINES` that has told one,
//! and the meeting place is `MASTER_ADDR` and `MASTER_PORT`, or what follows from the engine's own words. Nothing here opens a
//! connection.

use oneflow_base::{Error, Result};

use crate::engine::comm_id;

/// A process's place in its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub rank: usize,
    pub world_size: usize,
    /// Among the processes of this host; 0 where the launcher does not tell.
    pub local_rank: usize,
    pub local_world_size: usize,
    /// Where the store is. `None` for a process on its own.
    pub master: Option<(String, u16)>,
    /// The launcher serves the store.
    pub agent_store: bool,
    pub run_id: String,
    /// What this was read from, for logs and errors.
    pub source: &'static str,
    /// What a user should hear who expected something else.
    pub note: Option<&'static str>,
}

/// The variables in which an engine tells each process its place. An empty name: it has none.
struct Contract {
    source: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    kind: Engine,
}

#[derive(PartialEq, Eq)]
enum Engine {
    Mpi,
    Slurm,
    Kubernetes,
    /// Variables for torchrun's flags, one process a node.
    Pet,
}

const TORCHRUN: Contract = Contract {
    source: "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
    rank: "RANK",
    size: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    local_size: "LOCAL_WORLD_SIZE",
    kind: Engine::Mpi,
};

/// In this order. MPI comes before Slurm: its daemons are tasks of a Slurm step, and processes inherit what the daemon was
/// told. PMIx comes after Slurm, whose tasks have a rank there too, but a size only in Slurm's own words.
const ENGINES: [Contract; 7] = [
    Contract {
        source: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        kind: Engine::Mpi,
    },
    Contract {
        source: "MVAPICH",
        rank: "MV2_COMM_WORLD_RANK",
        size: "MV2_COMM_WORLD_SIZE",
        local_rank: "MV2_COMM_WORLD_LOCAL_RANK",
        local_size: "MV2_COMM_WORLD_LOCAL_SIZE",
        kind: Engine::Mpi,
    },
    Contract {
        source: "PMI (MPICH, Intel MPI)",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local_size: "MPI_LOCALNRANKS",
        kind: Engine::Mpi,
    },
    // Of a step, which `srun` starts: a batch script and an interactive shell have ranks too, and are one process.
    Contract {
        source: "Slurm",
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        local_size: "SLURM_STEP_TASKS_PER_NODE",
        kind: Engine::Slurm,
    },
    Contract {
        source: "PMIx",
        rank: "PMIX_RANK",
        size: "WORLD_SIZE",
        local_rank: "PMIX_LOCAL_RANK",
        local_size: "PMIX_LOCAL_SIZE",
        kind: Engine::Mpi,
    },
    Contract {
        source: "Kubernetes indexed job",
        rank: "JOB_COMPLETION_INDEX",
        size: "WORLD_SIZE",
        local_rank: "",
        local_size: "",
        kind: Engine::Kubernetes,
    },
    Contract {
        source: "PET_NODE_RANK, PET_NNODES, PET_MASTER_ADDR, PET_MASTER_PORT",
        rank: "PET_NODE_RANK",
        size: "PET_NNODES",
        local_rank: "",
        local_size: "",
        kind: Engine::Pet,
    },
];

const REQUIRED: [&str; 4] = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];
/// `env` reads torchrun's variables alone, for processes of an MPI or Slurm job that are to stay on their own.
const CHOICE: &str = "ONEFLOW_RENDEZVOUS";
/// Ports derived from a job's number: above those that systems give to outgoing connections.
const PORTS: std::ops::Range<u64> = 61_440..65_536;

/// Where pods meet unless they are told otherwise: torchrun's port too. Each pod has an address of its own.
const POD_PORT: u16 = 29_500;

type Var<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Launch {
    /// From this process's environment.
    pub fn from_env() -> Result<Launch> {
        read(&|name| std::env::var(name).ok(), &launcher_process)
    }

    /// As [`Launch::from_env`], where the program itself says its rank and the number of ranks.
    pub fn from_env_with(rank: usize, world_size: usize) -> Result<Launch> {
        let var = |name: &str| match name {
            "RANK" => Some(rank.to_string()),
            "WORLD_SIZE" => Some(world_size.to_string()),
            _ => std::env::var(name).ok(),
        };
        read(&var, &launcher_process)
    }

    /// Whether the environment says anything of ranks: if not, `from_env` finds a process on its own and has nothing to note. For
    /// those who ask often.
    pub fn is_told() -> bool {
        let names = [CHOICE, TORCHRUN.rank, TORCHRUN.size].into_iter().chain(ENGINES.iter().map(|c| c.rank));
        names.into_iter().any(|name| std::env::var_os(name).is_some())
    }

    /// From any source of variables. No launcher's: a process on its own. Some of those that belong together: an error.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Launch> {
        read(&var, &|_| None)
    }

    /// Told by the program alone.
    pub fn at(rank: usize, world_size: usize, master: (String, u16), source: &'static str) -> Result<Launch> {
        if rank >= world_size {
            return Err(Error::value(format!("rendezvous: rank is {rank}, but world_size is {world_size}")));
        }
        Ok(Launch { rank, world_size, master: Some(master), source, ..Launch::single() })
    }

    fn single() -> Launch {
        Launch {
            rank: 0,
            world_size: 1,
            local_rank: 0,
            local_world_size: 1,
            master: None,
            agent_store: false,
            run_id: "none".to_owned(),
            source: "no launcher: a single process",
            note: None,
        }
    }

    /// Engines start single processes too, which meet nobody.
    fn alone_if_one(self) -> Result<Launch> {
        if self.world_size == 1 {
            return Ok(Launch { master: None, ..self });
        }
        match self.master {
            Some(_) => Ok(self),
            None => Err(Error::value(format!(
                "rendezvous ({}): rank {} of {} does not know where to meet; set MASTER_ADDR to the host of rank 0 and \
                 MASTER_PORT to a free port there ({CHOICE}=env keeps the processes apart)",
                self.source, self.rank, self.world_size
            ))),
        }
    }
}

/// `job` names the launcher's own process on this host, above all that have the given variable.
fn read(var: Var<'_>, job: &dyn Fn(&str) -> Option<String>) -> Result<Launch> {
    let var = |name: &str| match name {
        "" => None,
        name => var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()),
    };
    let choice = var(CHOICE);
    if let Some(text) = choice.as_deref().filter(|text| !["auto", "env"].contains(text)) {
        return Err(Error::value(format!("rendezvous: {CHOICE} is '{text}', expected 'auto' or 'env'")));
    }
    let mut note = None;
    if var("RANK").is_none() && choice.as_deref() != Some("env") {
        for c in ENGINES.iter().filter(|c| var(c.rank).is_some()) {
            let sized = var(c.size).is_some();
            match c.kind {
                Engine::Slurm if !sized || is_shell(&var) => continue,
                // Indexed jobs also run tasks that have nothing to do with each other.
                Engine::Kubernetes if !sized => {
                    note = Some("JOB_COMPLETION_INDEX is set without WORLD_SIZE: this process is a job of its own");
                    continue;
                }
                Engine::Pet if sized => one_process_a_node(&var)?,
                Engine::Pet => continue,
                Engine::Mpi if !sized => {
                    return Err(Error::value(format!(
                        "rendezvous ({}): {} is set, but {} is not: set it to the number of processes ({CHOICE}=env keeps \
                         the processes apart)",
                        c.source, c.rank, c.size
                    )));
                }
                _ => {}
            }
            let found = place(c, &var)?;
            // Who is alone asks for no meeting place.
            let master = if found.world_size > 1 { master(c, &var, job)? } else { None };
            return Launch { master, ..found }.alone_if_one();
        }
    }
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| var(name).is_none()).collect();
    // A meeting place alone says nothing of ranks: the program may name them when it joins.
    if var("RANK").is_none() && var("WORLD_SIZE").is_none() {
        return Ok(Launch { note, ..Launch::single() });
    }
    if !missing.is_empty() {
        let set: Vec<&str> = REQUIRED.into_iter().filter(|name| !missing.contains(name)).collect();
        return Err(Error::value(format!(
            "rendezvous: {} {} not set, while {} {}; all of {} belong together (unset them all to run one process)",
            missing.join(", "),
            if missing.len() == 1 { "is" } else { "are" },
            set.join(", "),
            if set.len() == 1 { "is" } else { "are" },
            REQUIRED.join(", "),
        )));
    }
    let agent_store = var("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let found = place(&TORCHRUN, &var)?;
    Ok(Launch {
        master: var("MASTER_ADDR").zip(given_port(&var)?),
        agent_store,
        run_id: var("TORCHELASTIC_RUN_ID").unwrap_or(found.run_id),
        source: match agent_store {
            true => "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT with the store of torchrun",
            false => TORCHRUN.source,
        },
        ..found
    })
}

/// `PET_*` are flags for torchrun. A process that finds them and no rank was started in torchrun's place, one on each node.
fn one_process_a_node(var: Var<'_>) -> Result<()> {
    let several = var("PET_NPROC_PER_NODE").filter(|n| n != "1");
    let elastic = var("PET_NNODES").filter(|n| n.contains(':'));
    let (name, value) = match (several, elastic) {
        (Some(n), _) => ("PET_NPROC_PER_NODE", n),
        (_, Some(n)) => ("PET_NNODES", n),
        _ => return Ok(()),
    };
    Err(Error::value(format!(
        "rendezvous: {name} is '{value}', but no RANK is set: PET_ variables are flags for torchrun, so start the program with \
         torchrun or python -m oneflow.distributed.launch"
    )))
}

fn number(var: Var<'_>, name: &str, default: usize) -> Result<usize> {
    let Some(text) = var(name) else { return Ok(default) };
    // Slurm writes `2(x3),1` for three hosts of two tasks and one of one.
    let digits = text.split(['(', ',']).next().unwrap_or_default();
    let digits = if name == "SLURM_STEP_TASKS_PER_NODE" { digits } else { &text };
    digits
        .parse::<usize>()
        .map_err(|_| Error::value(format!("rendezvous: {name} is '{text}', expected a non-negative whole number")))
}

/// The ranks; the meeting place is the caller's.
fn place(c: &Contract, var: Var<'_>) -> Result<Launch> {
    let (rank, world_size) = (number(var, c.rank, 0)?, number(var, c.size, 1)?);
    if rank >= world_size {
        return Err(Error::value(format!("rendezvous: {} is {rank}, but {} is {world_size}", c.rank, c.size)));
    }
    Ok(Launch {
        rank,
        world_size,
        local_rank: number(var, c.local_rank, 0)?,
        local_world_size: number(var, c.local_size, 1)?,
        source: c.source,
        ..Launch::single()
    })
}

fn given_port(var: Var<'_>) -> Result<Option<u16>> {
    port(var, "MASTER_PORT")
}

fn port(var: Var<'_>, name: &str) -> Result<Option<u16>> {
    let Some(text) = var(name) else { return Ok(None) };
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err(Error::value(format!("rendezvous: {name} is '{text}', expected a port from 1 to 65535"))),
    }
}

/// Where a job meets. What is not given follows from names that all its processes see alike.
fn master(c: &Contract, var: Var<'_>, job: &dyn Fn(&str) -> Option<String>) -> Result<Option<(String, u16)>> {
    if matches!(c.kind, Engine::Kubernetes | Engine::Pet) {
        let host = var("MASTER_ADDR").or_else(|| var("PET_MASTER_ADDR"));
        let name = if var("MASTER_PORT").is_some() { "MASTER_PORT" } else { "PET_MASTER_PORT" };
        return Ok(host.zip(Some(port(var, name)?.unwrap_or(POD_PORT))));
    }
    let one_host = var(c.local_size).is_some() && number(var, c.local_size, 0)? == number(var, c.size, 1)?;
    let nodes = || var("SLURM_STEP_NODELIST").or_else(|| var("SLURM_JOB_NODELIST")).and_then(|list| first_host(&list));
    let launcher = || var("OMPI_MCA_orte_hnp_uri").and_then(|uri| hnp_host(&uri));
    let host = var("MASTER_ADDR").or_else(|| one_host.then(|| "127.0.0.1".to_owned())).or_else(nodes).or_else(launcher);
    let slurm = || Some(format!("{}.{}", var("SLURM_JOB_ID")?, var("SLURM_STEP_ID").unwrap_or_default()));
    let name = var("PMIX_NAMESPACE").or_else(|| var("OMPI_MCA_orte_hnp_uri")).or_else(slurm);
    // Hydra names no job, but on one host all its processes descend from one proxy.
    let name = name.or_else(|| one_host.then(|| job(c.rank)).flatten());
    let derived = name.map(|job| (PORTS.start + comm_id(&job) % (PORTS.end - PORTS.start)) as u16);
    Ok(host.zip(given_port(var)?.or(derived)))
}

/// The nearest ancestor of this process without the variable: who started all that have it.
fn launcher_process(variable: &str) -> Option<String> {
    let entry = format!("{variable}=").into_bytes();
    let mut pid = rustix::process::getppid()?.as_raw_nonzero().get();
    for _ in 0..64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Names of programs may hold anything, brackets too: fields are counted from the last one.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let inherits = std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|vars| vars.split(|&b| b == 0).any(|var| var.starts_with(&entry)));
        if !inherits {
            return Some(format!("{pid} since {}", fields.get(19)?));
        }
        pid = fields.get(1)?.parse().ok()?;
    }
    None
}

/// Shells are tasks too; what runs in them by hand is no job.
fn is_shell(var: Var<'_>) -> bool {
    var("SLURM_JOB_NAME").is_some_and(|name| name == "bash" || name == "interactive")
}

/// The first host of `node[001-003,007],gpu5`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find(',').unwrap_or(list.len());
    let Some((prefix, rest)) = list.split_once('[').filter(|(prefix, _)| prefix.len() < end) else {
        return Some(list[..end].to_owned()).filter(|host| !host.is_empty());
    };
    let (ranges, after) = rest.split_once(']')?;
    let first = ranges.split([',', '-']).next()?;
    Some(format!("{prefix}{first}{}", after.split(',').next().unwrap_or_default()))
}

/// The first address in `1823670272.0;tcp://10.0.0.7,172.17.0.1:54321`.
fn hnp_host(uri: &str) -> Option<String> {
    let (_, addresses) = uri.split_once("tcp://")?;
    let first = addresses.split([',', ':', ';']).next()?;
    Some(first.to_owned()).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(vars: &[(&str, &str)]) -> Result<Launch> {
        Launch::from_vars(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    const FULL: [(&str, &str); 4] =
        [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "29500")];

    #[test]
    fn the_environment_is_all_or_nothing() {
        let alone = launch(&[("LOCAL_RANK", "0")]).unwrap();
        assert_eq!((alone.rank, alone.world_size, alone.master), (0, 1, None));
        let full = launch(&FULL).unwrap();
        assert_eq!((full.rank, full.world_size, full.agent_store), (1, 2, false));
        for (i, (name, _)) in FULL.iter().enumerate() {
            let mut vars = FULL.to_vec();
            vars.remove(i);
            let error = launch(&vars).unwrap_err();
            assert!(error.text().contains(&format!("rendezvous: {name} is not set")), "{error}");
        }
        // The program names its rank itself, as PyTorch's tutorial does.
        let place_alone = launch(&FULL[2..]).unwrap();
        assert_eq!((place_alone.world_size, place_alone.master), (1, None));
        let mut torchrun = FULL.to_vec();
        torchrun.push(("TORCHELASTIC_USE_AGENT_STORE", "True"));
        let torchrun = launch(&torchrun).unwrap();
        assert!(torchrun.agent_store && torchrun.source.contains("torchrun"));
    }

    #[test]
    fn nonsense_is_named() {
        for (name, value, words) in [
            ("RANK", "two", "RANK is 'two'"),
            ("RANK", "2", "RANK is 2, but WORLD_SIZE is 2"),
            ("RANK", "-1", "RANK is '-1'"),
            ("WORLD_SIZE", "0", "WORLD_SIZE is 0"),
            ("MASTER_PORT", "70000", "MASTER_PORT is '70000'"),
            ("MASTER_PORT", "0", "MASTER_PORT is '0'"),
            ("RANK", "", "RANK is not set"),
            ("ONEFLOW_RENDEZVOUS", "slurm", "ONEFLOW_RENDEZVOUS is 'slurm'"),
        ] {
            let mut vars = FULL.to_vec();
            vars.retain(|(n, _)| *n != name);
            vars.push((name, value));
            let error = launch(&vars).unwrap_err();
            assert!(error.text().contains(words), "{error}");
        }
    }

    const STEP: [(&str, &str); 7] = [
        ("SLURM_PROCID", "5"),
        ("SLURM_STEP_NUM_TASKS", "8"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x4)"),
        ("SLURM_JOB_ID", "4100"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NODELIST", "node[003-005,007],gpu5"),
    ];

    #[test]
    fn a_step_of_slurm_meets_on_its_first_host() {
        let found = launch(&STEP).unwrap();
        assert_eq!((found.rank, found.world_size, found.local_rank, found.local_world_size), (5, 8, 1, 2));
        let (host, port) = found.master.clone().unwrap();
        assert_eq!((host.as_str(), found.source), ("node003", "Slurm"));
        assert!(PORTS.contains(&u64::from(port)));
        let other = |name: &str, value: &'static str| {
            let vars: Vec<_> = STEP.iter().map(|v| if v.0 == name { (v.0, value) } else { *v }).collect();
            launch(&vars).unwrap()
        };
        assert_eq!(other("SLURM_PROCID", "0").master, found.master);
        assert_ne!(other("SLURM_STEP_ID", "1").master.unwrap().1, port);
        for (list, first) in [("a", "a"), ("a,b[1-2]", "a"), ("b[12,14]-ib,a", "b12-ib"), ("n[9]", "n9")] {
            assert_eq!(other("SLURM_STEP_NODELIST", list).master.unwrap().0, first);
        }
        // What torchrun says under srun counts, and what the user says of the meeting place.
        let torchrun: Vec<_> = STEP.into_iter().chain(FULL).collect();
        assert_eq!(launch(&torchrun).unwrap().world_size, 2);
        let given: Vec<_> = STEP.into_iter().chain([("MASTER_ADDR", "head"), ("MASTER_PORT", "4000")]).collect();
        assert_eq!(launch(&given).unwrap().master, Some(("head".to_owned(), 4000)));
        // No job: a shell, the batch script, a single task, or by choice.
        for extra in [("SLURM_JOB_NAME", "bash"), ("ONEFLOW_RENDEZVOUS", "env")] {
            let vars: Vec<_> = STEP.into_iter().chain([extra]).collect();
            assert_eq!(launch(&vars).unwrap().world_size, 1, "{extra:?}");
        }
        let batch: Vec<_> = STEP.into_iter().filter(|v| !v.0.starts_with("SLURM_STEP")).collect();
        assert_eq!(launch(&batch).unwrap(), Launch::single());
        let one = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(launch(&one).unwrap().master, None);
    }

    #[test]
    fn processes_of_mpi_find_their_place() {
        let open = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("OMPI_MCA_orte_hnp_uri", "1823670272.0;tcp://10.0.0.7,172.17.0.1:54321"),
            // Of the daemon that started this process.
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ];
        let found = launch(&open).unwrap();
        assert_eq!((found.rank, found.world_size, found.local_rank, found.source), (3, 4, 1, "Open MPI"));
        assert_eq!(found.master.unwrap().0, "10.0.0.7");
        let here = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "prterun-host-71@1"),
        ];
        assert_eq!(launch(&here).unwrap().master.unwrap().0, "127.0.0.1");
        let hydra = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "2")];
        let error = launch(&hydra).unwrap_err();
        assert!(error.text().contains("(PMI (MPICH, Intel MPI)): rank 1 of 2") && error.text().contains("MASTER_PORT"));
        let told: Vec<_> = hydra.into_iter().chain([("MASTER_PORT", "29500")]).collect();
        assert_eq!(launch(&told).unwrap().master, Some(("127.0.0.1".to_owned(), 29500)));
        let var = |name: &str| hydra.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        let (host, port) = read(&var, &|name| (name == "PMI_RANK").then(|| "17".to_owned())).unwrap().master.unwrap();
        assert!(host == "127.0.0.1" && PORTS.contains(&u64::from(port)));
        // This process's launcher is an ancestor of it, the same for all who ask.
        let parent = launcher_process("COMM_TEST_NO_SUCH_VARIABLE").unwrap();
        assert!(
            parent.starts_with(&rustix::process::getppid().unwrap().as_raw_nonzero().get().to_string()),
            "{parent}"
        );
    }

    #[test]
    fn pods_and_pmix_have_a_place_too() {
        let found = |vars: &[(&str, &str)]| launch(vars).map(|l| (l.rank, l.world_size, l.master, l.note.is_some()));
        let index = ("JOB_COMPLETION_INDEX", "2");
        assert_eq!(found(&[index]).unwrap(), (0, 1, None, true));
        let master = |host: &str, port| Some((host.to_owned(), port));
        let pod = [index, ("WORLD_SIZE", "3"), ("MASTER_ADDR", "train-0.train")];
        assert_eq!(found(&pod).unwrap(), (2, 3, master("train-0.train", 29_500), false));
        assert!(launch(&pod[..2]).unwrap_err().text().contains("(Kubernetes indexed job): rank 2 of 3 does not know"));
        let pet = [("PET_NNODES", "4"), ("PET_NODE_RANK", "3"), ("PET_MASTER_ADDR", "n0"), ("PET_MASTER_PORT", "4000")];
        assert_eq!(found(&pet).unwrap(), (3, 4, master("n0", 4000), false));
        for flag in [("PET_NPROC_PER_NODE", "gpu"), ("PET_NPROC_PER_NODE", "2"), ("PET_NNODES", "1:4")] {
            let vars: Vec<_> = [flag].into_iter().chain(pet).collect();
            let error = launch(&vars).unwrap_err();
            assert!(error.text().contains(flag.0) && error.text().contains("torchrun"), "{error}");
        }
        // A worker of torchrun inherits them.
        let worker: Vec<_> = pet.into_iter().chain(FULL).collect();
        assert_eq!(found(&worker).unwrap(), (1, 2, master("localhost", 29_500), false));
        let pmix = [("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "prterun-host-71@1"), ("MASTER_ADDR", "h")];
        assert!(launch(&pmix).unwrap_err().text().contains("WORLD_SIZE is not"));
        let sized: Vec<_> = pmix.into_iter().chain([("WORLD_SIZE", "2")]).collect();
        assert_eq!(launch(&sized).unwrap().source, "PMIx");
        // Slurm's tasks under PMIx.
        let step: Vec<_> = STEP.into_iter().chain([("PMIX_RANK", "5"), ("PMIX_NAMESPACE", "slurm.pmix.1.0")]).collect();
        assert_eq!((launch(&step).unwrap().source, launch(&step).unwrap().world_size), ("Slurm", 8));
        // Sizes for torchrun in a batch script do not hide the engine's ranks.
        let script: Vec<_> =
            STEP.into_iter().chain([("WORLD_SIZE", "8"), ("MASTER_ADDR", "n3"), ("MASTER_PORT", "9")]).collect();
        assert_eq!(found(&script).unwrap(), (5, 8, master("n3", 9), false));
    }
}
