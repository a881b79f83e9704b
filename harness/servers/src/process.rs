//! A server's processes with their directory and their log.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use crate::group::Group;
use crate::{ServerError, start};

/// Process group of one server in a directory of its own; both end on drop.
pub(crate) struct ServerProcess {
    // Ends before the directory is removed.
    group: Group,
    directory: TempDir,
}

impl ServerProcess {
    /// Creates a group without processes.
    pub(crate) fn new(directory: TempDir) -> Result<Self, ServerError> {
        let group = Group::new(directory.path()).map_err(ServerError::io("run /bin/sh"))?;
        Ok(Self { group, directory })
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Ends all processes and returns the directory, which stays.
    pub(crate) fn into_directory(self) -> TempDir {
        self.directory
    }

    /// Returns a command for [`ServerProcess::start`] that writes to the log.
    pub(crate) fn command(&self, program: &Path) -> Result<Command, ServerError> {
        start::command(program, self.directory())
    }

    /// Starts a process in the group.
    pub(crate) fn start(&mut self, mut command: Command) -> Result<(), ServerError> {
        let doing = format!("run {}", Path::new(command.get_program()).display());
        self.group
            .start(&mut command)
            .map_err(ServerError::io(doing))
    }

    /// Probes until there is an answer, the process started last ends, or `timeout` is
    /// over.
    pub(crate) fn wait_for<T>(
        &mut self,
        server: &'static str,
        timeout: Duration,
        probe: impl FnMut() -> Option<T>,
    ) -> Result<T, ServerError> {
        start::wait_for(
            server,
            self.directory.path(),
            timeout,
            &mut self.group,
            probe,
        )
    }

    /// Waits for the end of the process started last.
    pub(crate) fn wait(&mut self) {
        self.group.wait();
    }

    /// Returns the id of the process started last.
    pub(crate) fn id(&self) -> u32 {
        self.group.server()
    }

    /// Returns the exit status of the process started last, or `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.group.ended()
    }

    /// Kills all processes.
    pub(crate) fn kill(&mut self) {
        self.group.kill();
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        start::log(self.directory())
    }
}
