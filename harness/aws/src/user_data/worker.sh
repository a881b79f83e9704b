#!/bin/bash
# Before anything can fail: the instance ends on its own.
shutdown -h +@MINUTES@
set -euo pipefail
mkdir -p /opt/epochcost
cd /opt/epochcost
export AWS_REGION=@REGION@ AWS_DEFAULT_REGION=@REGION@

# Copies an object. A new role's permissions may be seconds late.
copy() {
    for _ in {1..30}; do
        aws s3 cp --quiet "$1" "$2" && return
        sleep 2
    done
    return 1
}

# EC2 charges from the time at which the instance runs.
awk -v now="$(date +%s.%N)" '{printf "@CLOCK_PREFIX@booted %.3f\n", now - $1}' /proc/uptime >log.txt
date '+@CLOCK_PREFIX@started %s.%N' >>log.txt
# A worker that fails leaves its log, too, and ends its instance, whatever fails on the way.
finish() {
    set +e
    date '+@CLOCK_PREFIX@ended %s.%N' >>log.txt
    copy log.txt @LOG_URL@
    shutdown -h now
}
trap finish EXIT

@WORK@
