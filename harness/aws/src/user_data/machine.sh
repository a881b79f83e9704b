# shellcheck shell=bash
# Part of worker.sh: runs a trial on the local platform, and hands in what was recorded of it.
for program in epochcost bootstrap; do
    copy @PROGRAMS_URL@"/$program" "$program"
    chmod +x "$program"
done
for file in trial.json train.bin test.bin; do
    copy @TRIAL_URL@"/$file" "$file"
done
@ENVIRONMENT@
EPOCHCOST_WORKER="$PWD/bootstrap" HOME="$PWD" ./epochcost dev trial . >>log.txt 2>&1
copy outcome.json @TRIAL_URL@/outcome.json
