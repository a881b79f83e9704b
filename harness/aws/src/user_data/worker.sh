#!/bin/bash
# Before anything can fail: the instance ends on its own.
shutdown -h +@MINUTES@
set -euo pipefail
mkdir -p /opt/epochcost
cd /opt/epochcost

date '+@CLOCK_PREFIX@started %s.%N' >log.txt
# A worker that fails leaves its log, too, and ends its instance.
finish() {
    date '+@CLOCK_PREFIX@ended %s.%N' >>log.txt
    aws s3 cp --quiet log.txt @LOG_URL@
    shutdown -h now
}
trap finish EXIT

aws s3 cp --quiet @WORKER_URL@ bootstrap
aws s3 cp --quiet @TASK_URL@ task.json
chmod +x bootstrap
@ENVIRONMENT@
# The worker ends with its standard input: the pipe stays open for writing.
mkfifo input
exec 3<>input
cat task.json >&3
./bootstrap --instance <&3 >>log.txt 2>&1
