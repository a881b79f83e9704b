//! The servers of a run: started when first needed, and again where one ended or hangs.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitStatus;

use epochcost_environment::user::REAL_REDIS;
use epochcost_servers::{
    Allocator, ObjectServer, RabbitMq, Redis, RedisSettings, ServerError, find,
};
use epochcost_spec::chain::chain;
use epochcost_spec::hash::sha256_of;
use epochcost_spec::metering::Server;
use epochcost_spec::rows::{Row, TensorStoreKind};

use super::external::ExternalServers;
use super::programs::{check, object_server, redis_module};
use crate::PlatformError;
use crate::local::program::Program;

/// Recorded settings of an external server.
const EXTERNAL: &str = "external, settings unknown";
/// The bucket on a server of our own.
const BUCKET: &str = "epochcost";

/// Kind of Redis server: a server with the module does not replace one without, nor
/// does one allocator replace the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RedisKind {
    has_module: bool,
    allocator: Allocator,
}

/// The servers of a run; they end when dropped.
#[derive(Debug)]
pub(super) struct Servers {
    external: ExternalServers,
    /// The Redis module.
    module: Option<Program>,
    /// The S3-compatible server.
    object_server: Option<Program>,
    objects: Option<ObjectServer>,
    queue: Option<RabbitMq>,
    /// One server per peer, for each kind that a row asked for.
    tensors: BTreeMap<RedisKind, Vec<Redis>>,
}

/// A store that does not answer.
pub(super) struct Silent {
    /// Name in messages.
    pub(super) name: String,
    /// Address by which workers know it.
    pub(super) address: String,
}

/// Addresses of a trial's services.
#[derive(Clone)]
pub(super) struct Addresses {
    /// Address of the object store, with the bucket.
    pub(super) objects: String,
    /// Address of each peer's tensor store.
    pub(super) tensors: Vec<String>,
    /// Address of the queue.
    pub(super) queue: String,
}

impl Servers {
    /// Finds or builds what the rows need; starts nothing.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] with the remedy.
    pub(super) fn prepare(rows: &[Row]) -> Result<Self, PlatformError> {
        check(rows)?;
        let external = ExternalServers::read()?;
        let needs_module = external.redis.is_empty() && rows.iter().any(Row::needs_module);
        let module = needs_module.then(redis_module).transpose()?;
        let server = (external.s3.is_none()).then(object_server).transpose()?;
        let open = |path: PathBuf| {
            let opened = Program::open(&path);
            opened.map_err(|error| changed(format!("{}: {error}", path.display())))
        };
        Ok(Self {
            module: module.map(open).transpose()?,
            object_server: server.map(open).transpose()?,
            external,
            objects: None,
            queue: None,
            tensors: BTreeMap::new(),
        })
    }

    /// Starts what every trial needs; blocks.
    ///
    /// # Errors
    /// When one does not start.
    pub(super) fn start_shared(&mut self) -> Result<(), PlatformError> {
        self.objects()?;
        self.queue()?;
        Ok(())
    }

    /// Returns the servers that trials use, started or external.
    pub(super) fn used(&self) -> Vec<Server> {
        let used = |name: &str, version: Option<String>, settings: &str| Server {
            name: name.to_owned(),
            version,
            settings: settings.to_owned(),
        };
        let redis = if self.external.redis.is_empty() {
            let program = find::redis().ok();
            let version = program.and_then(|program| find::redis_version(&program));
            let module = self
                .module
                .as_ref()
                .map_or("no module".to_owned(), |module| {
                    let hash = sha256_of(module.path()).unwrap_or_else(|_| "unknown".into());
                    format!("module of sha256 {hash}")
                });
            let settings = format!("a server per peer, {module}, nothing written to disk");
            used("Redis", version, &settings)
        } else {
            used("Redis", None, EXTERNAL)
        };
        let rabbitmq = match self.queue.as_ref().map(RabbitMq::version) {
            Some(version) => {
                let version = version.map(str::to_owned);
                used("RabbitMQ", version, "no plugins, durable queues")
            }
            None => used("RabbitMQ", None, EXTERNAL),
        };
        let s3 = match &self.object_server {
            Some(program) => used("S3", find::s3_version(program.path()), "objects in memory"),
            None => used("S3", None, EXTERNAL),
        };
        vec![redis, rabbitmq, s3]
    }

    /// Starts the servers that a row needs and that do not run or do not answer; blocks.
    ///
    /// # Errors
    /// When one does not start.
    pub(super) fn start(&mut self, row: &Row) -> Result<Addresses, PlatformError> {
        for program in [&self.module, &self.object_server].into_iter().flatten() {
            program.check().map_err(changed)?;
        }
        Ok(Addresses {
            objects: self.objects()?,
            queue: self.queue()?,
            tensors: self.tensors(row)?,
        })
    }

    fn objects(&mut self) -> Result<String, PlatformError> {
        let Some(program) = &self.object_server else {
            return Ok(self.external.s3.clone().unwrap_or_default());
        };
        let server = running(
            &mut self.objects,
            |server| server.ended().is_none() && server.is_answering(),
            || ObjectServer::run(program.path()),
        )?;
        Ok(format!("{}/{BUCKET}", server.url()))
    }

    fn queue(&mut self) -> Result<String, PlatformError> {
        if let Some(address) = &self.external.rabbitmq {
            return Ok(address.clone());
        }
        let server = running(
            &mut self.queue,
            |server| server.ended().is_none() && server.is_answering(),
            RabbitMq::start,
        )?;
        Ok(server.url())
    }

    fn tensors(&mut self, row: &Row) -> Result<Vec<String>, PlatformError> {
        let choice = row.tensor_store.unwrap_or_default();
        let stores = row.tensor_stores();
        if !self.external.redis.is_empty() {
            self.check_external(row)?;
            let servers = self.external.redis.iter().take(stores);
            return Ok(servers.map(|url| spoken(url, choice.kind)).collect());
        }
        let kind = kind_of(row);
        let module = self.module.as_ref().filter(|_| kind.has_module);
        let settings = RedisSettings {
            module: module.map(|module| module.path().to_owned()),
            allocator: choice.allocator,
            configuration: String::new(),
        };
        let pool = self.tensors.entry(kind).or_default();
        pool.retain_mut(|server| server.ended().is_none() && server.is_answering());
        while pool.len() < stores {
            pool.push(Redis::start(&settings).map_err(not_started)?);
        }
        let urls = pool.iter().take(stores).map(Redis::url);
        Ok(urls.map(|url| spoken(&url, choice.kind)).collect())
    }

    /// Refuses a row that the external servers cannot serve. Keys of all stores have the
    /// same names, so that each store needs a server of its own.
    fn check_external(&self, row: &Row) -> Result<(), PlatformError> {
        let (named, stores) = (self.external.redis.len(), row.tensor_stores());
        if named < stores {
            return Err(PlatformError::Lacks {
                what: format!(
                    "a Redis for each of the {stores} tensor stores of {}: {REAL_REDIS} names {named}",
                    row.id
                ),
                remedy: "name one for each, or leave the variable out to have them started".into(),
            });
        }
        if row.tensor_store.unwrap_or_default().allocator != Allocator::Stock {
            return Err(PlatformError::Lacks {
                what: format!(
                    "the allocator that {} asks for: {REAL_REDIS} names servers that run already",
                    row.id
                ),
                remedy: "leave the variable out to have servers started with it".into(),
            });
        }
        Ok(())
    }

    /// Returns the stores of a row that this run started and that do not answer; blocks.
    pub(super) fn silent(&self, row: &Row) -> Vec<Silent> {
        let objects = (self.objects.iter()).filter(|server| !server.is_answering());
        let objects = objects.map(|server| Silent {
            name: "the S3 server".to_owned(),
            address: format!("{}/{BUCKET}", server.url()),
        });
        let kind = row.tensor_store.unwrap_or_default().kind;
        let pool = self.tensors.get(&kind_of(row)).into_iter().flatten();
        let peers = pool.take(row.tensor_stores()).enumerate();
        let peers = peers.filter(|(_, server)| !server.is_answering());
        let peers = peers.map(|(peer, server)| Silent {
            name: format!("Redis of peer {peer}"),
            address: spoken(&server.url(), kind),
        });
        objects.chain(peers).collect()
    }

    /// Returns a message if a server in use has ended. External servers are not
    /// monitored.
    pub(super) fn ended(&mut self, row: &Row) -> Option<String> {
        let message = |name: &dyn Display, status: ExitStatus| {
            format!("{name} ended in the middle of the trial ({status})")
        };
        if let Some(status) = self.objects.as_mut().and_then(ObjectServer::ended) {
            return Some(message(&"the S3 server", status));
        }
        if let Some(status) = self.queue.as_mut().and_then(RabbitMq::ended) {
            return Some(message(&"RabbitMQ", status));
        }
        let pool = self.tensors.get_mut(&kind_of(row))?;
        let mut peers = pool.iter_mut().take(row.tensor_stores()).enumerate();
        peers.find_map(|(peer, server)| {
            let status = server.ended()?;
            Some(message(&format_args!("Redis of peer {peer}"), status))
        })
    }
}

fn kind_of(row: &Row) -> RedisKind {
    RedisKind {
        has_module: row.needs_module(),
        allocator: row.tensor_store.unwrap_or_default().allocator,
    }
}

/// Returns the server in `place`; starts one if none is usable.
fn running<S>(
    place: &mut Option<S>,
    is_usable: impl Fn(&mut S) -> bool,
    start: impl FnOnce() -> Result<S, ServerError>,
) -> Result<&mut S, PlatformError> {
    if place.as_mut().is_some_and(|server| !is_usable(server)) {
        *place = None;
    }
    match place {
        Some(server) => Ok(server),
        None => Ok(place.insert(start().map_err(not_started)?)),
    }
}

fn changed(reason: String) -> PlatformError {
    PlatformError::service("a server", reason)
}

fn not_started(error: ServerError) -> PlatformError {
    changed(chain(&error))
}

/// Returns a Redis server's address with the scheme of a kind of tensor store, from
/// which the client infers its protocol.
fn spoken(url: &str, kind: TensorStoreKind) -> String {
    let scheme = kind.scheme();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    format!("{scheme}://{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_says_what_is_spoken() {
        for (kind, scheme) in [
            (TensorStoreKind::Module, "redis"),
            (TensorStoreKind::Plain, "redis+plain"),
            (TensorStoreKind::Lua, "redis+lua"),
        ] {
            let address = spoken("redis://:secret@127.0.0.1:6379", kind);
            assert_eq!(address, format!("{scheme}://:secret@127.0.0.1:6379"));
        }
    }
}
