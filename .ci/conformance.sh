#!/usr/bin/env bash
# Runs the official MCP conformance suite against a server directly, and twice
# through a cache in front of it: cold, then warm.
#
#   conformance.sh REVISION SERVER_URL CACHE_URL
#
# REVISION is 2025-11-25 or 2026-07-28. The URLs name localhost or 127.0.0.1, as
# the suite's check of DNS rebinding wants it. The suite and its Node come from
# npm, once for each of their versions, into ~/.cache or $XDG_CACHE_HOME.
# Status: 0 if each check that passes directly passes through the cache, 1 if
# one does not, 2 if the suite could not run.
set -euo pipefail

suite=@modelcontextprotocol/conformance
version=0.2.0-alpha.12
node=24.21.0

[ $# -eq 3 ] || { echo "usage: $0 REVISION SERVER_URL CACHE_URL" >&2; exit 2; }
revision=$1 server=$2 cache=$3

new='' results=$(mktemp -d)
trap 'rm -rf "$new" "$results"' EXIT

home=${XDG_CACHE_HOME:-$HOME/.cache}/mcp-conformance/$version-node-$node
if [ ! -d "$home" ]; then
  mkdir -p "${home%/*}"
  new=$(mktemp -d "$home.XXXXXX")
  npm install --silent --no-save --no-package-lock --prefix "$new" "node@$node" "$suite@$version" ||
    { echo "the conformance suite cannot be installed" >&2; exit 2; }
  [ -d "$home" ] || mv "$new" "$home" # another run may have been faster
fi
PATH=$home/node_modules/node/bin:$PATH

# run PASS URL: runs the suite. Failed checks are a result like any other.
run() {
  timeout --foreground 600 node "$home/node_modules/$suite/dist/index.js" server --url "$2" \
    --requirements "$revision" --output-dir "$results/$1" >"$results/$1.log" 2>&1 || true
  compgen -G "$results/$1/*/checks.json" >/dev/null ||
    { tail -n 20 "$results/$1.log"; echo "the conformance suite has no results of $2"; exit 2; } >&2
}

run direct "$server"
run cold "$cache"
run warm "$cache"
node .ci/conformance.mjs "$revision" "$results"
