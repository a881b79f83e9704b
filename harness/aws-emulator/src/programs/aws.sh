#!/bin/bash
signed=(-fsS -H "authorization: $EMULATOR_AUTHORIZATION")
case "$4" in
s3://*) exec curl "${signed[@]}" -o "$5" "$AWS_ENDPOINT_URL_S3/${4#s3://}" ;;
esac
exec curl "${signed[@]}" -T "$4" "$AWS_ENDPOINT_URL_S3/${5#s3://}"
