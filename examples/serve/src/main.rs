//! `oneflow-serve model.plan [127.0.0.1:8000] [workers]`: serves what `Graph.save_plan` wrote.

use oneflow_base::{Error, Result};
use oneflow_runtime::Session;
use oneflow_serve::{Service, register};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = args.first() else {
        return Err(Error::value("usage: oneflow-serve model.plan [address] [workers]"));
    };
    let address = args.get(1).map_or("127.0.0.1:8000", String::as_str);
    let workers = match args.get(2) {
        Some(n) => n.parse().map_err(|e| Error::value(format!("workers: {e}")))?,
        None => 2,
    };
    register();
    let service = Service::start(Session::load(path)?, address, workers)?;
    if let Some(at) = service.address() {
        eprintln!("serving {path} at http://{at}");
    }
    service.join();
    Ok(())
}
