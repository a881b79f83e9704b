# shellcheck shell=bash
# Part of worker.sh: runs a trial on the local platform, and hands in what was recorded of it.
copy @PROGRAM_URL@ epochcost
copy @WORKER_URL@ bootstrap
chmod +x epochcost bootstrap
for file in trial.json train.bin test.bin; do
    copy @TRIAL_URL@"/$file" "$file"
done
@ENVIRONMENT@
EPOCHCOST_WORKER="$PWD/bootstrap" HOME="$PWD" ./epochcost dev trial . >>log.txt 2>&1
copy outcome.json @TRIAL_URL@/outcome.json
