#!/usr/bin/env bash
# Tests with a Kafka broker: those of the tier *all*, or the campaigns.
#
#   tools/kafka/test.sh --prepare            installs Java, Maven and Kafka's jars where they are
#                                            missing, and tests nothing
#   tools/kafka/test.sh                      the tests of the tier *all* that need a broker
#   tools/kafka/test.sh campaigns [FILTER]   storms, quotas, outages, three brokers, the tutorials;
#                                            SECONDS_OF_STORM=600 and SEED=random change the storm
set -euo pipefail
cd "$(dirname "$0")/../.."

need_packages=()
command -v java >/dev/null || need_packages+=(default-jre-headless)
command -v mvn >/dev/null || [ -e target/kafka/jars/complete ] || need_packages+=(maven)
command -v openssl >/dev/null || need_packages+=(openssl)
[ -e /usr/include/openssl/ssl.h ] || need_packages+=(libssl-dev)
if [ ${#need_packages[@]} -gt 0 ]; then
  elevate=""
  [ "$(id -u)" = 0 ] || elevate="sudo"
  $elevate apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $elevate apt-get install -y -qq "${need_packages[@]}" >/dev/null
fi
venv="$PWD/target/venv"
if ! "$venv/bin/python" -c 'import pyarrow, confluent_kafka, streaming_data_types' 2>/dev/null; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check pyarrow confluent-kafka \
    ess-streaming-data-types
fi
export FLUXLINE_PYTHON="${FLUXLINE_PYTHON:-$venv/bin/python}"
tools/kafka/broker.sh jars
[ "${1:-}" != --prepare ] || exit 0

flags=(--workspace --locked --features fluxline-cli/kafka-tls,fluxline-cli/s3)
if [ "${1:-}" = campaigns ]; then
  shift
  cargo test "${flags[@]}" --test kafka_campaigns -- --nocapture --test-threads 1 "$@"
  exit 0
fi
cargo test "${flags[@]}" --test kafka_tests --test cli_brokers -- --ignored "$@"
