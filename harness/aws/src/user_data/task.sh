# shellcheck shell=bash
# Part of worker.sh: runs the worker on one task.
copy @WORKER_URL@ bootstrap
copy @TASK_URL@ task.json
chmod +x bootstrap
@ENVIRONMENT@
# The worker ends with its standard input: the pipe stays open for writing.
mkfifo input
exec 3<>input
cat task.json >&3
./bootstrap --instance <&3 >>log.txt 2>&1
