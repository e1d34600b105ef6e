# For steps that run `caddy mcp-cache serve`. Processes end with the step.

command -v curl >/dev/null || { echo "this step needs curl"; exit 1; }

pids=()
finish() {
  for pid in ${pids[@]+"${pids[@]}"}; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
trap finish EXIT

# await NAME COMMAND...: waits until the command succeeds, at most 20 seconds.
# The log of NAME is shown when it never does, or when its process has ended.
await() {
  local name=$1 pid=${pids[-1]}
  shift
  for _ in $(seq 200); do
    "$@" >/dev/null 2>&1 && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  echo "$name did not start:"
  cat "$CI_OUT/$name.log" "$CI_OUT/$name.out" 2>/dev/null
  return 1
}

# serve NAME [ARG...]: starts `caddy mcp-cache serve` on a free port, and waits until
# it suggests lines to try or says that nothing would be a hit. What it prints is in
# $CI_OUT/NAME.out, its log in NAME.log.
serve() {
  local name=$1
  shift
  "$CI_OUT/caddy" mcp-cache serve --from 127.0.0.1:0 "$@" >"$CI_OUT/$name.out" 2>"$CI_OUT/$name.log" &
  pids+=($!)
  await "$name" grep -qE '"method":"tools/list"}|^Not cached at' "$CI_OUT/$name.out"
}

# endpoint NAME: the URL of the cache that serve NAME has started.
endpoint() {
  sed -n 's/^mcp_cache is at \([^,]*\),.*/\1/p' "$CI_OUT/$1.out"
}

# suggested NAME REVISION: runs the lines that serve NAME has printed for the
# revision. The last answer must be a hit.
suggested() {
  local name=$1 revision=$2
  sed -n "/^# MCP $revision:/,/^\$/p" "$CI_OUT/$name.out" >"$CI_OUT/suggested.sh"
  # Not a test of speed: the first hydrate may still be under way.
  for _ in $(seq 50); do
    sh "$CI_OUT/suggested.sh" >"$CI_OUT/suggested.out" 2>&1
    if grep -i '^cache-status:' "$CI_OUT/suggested.out" | tail -n 1 | grep -q 'mcp_cache; hit; ttl='; then
      echo "$name: the lines for $revision give a hit"
      return
    fi
    sleep 0.2
  done
  echo "$name: the lines for $revision give no hit:"
  cat "$CI_OUT/suggested.out"
  return 1
}
