# For steps that look for known vulnerabilities of modules. Only what is called counts: see .ci/vulnerabilities.

# vulnerable VERSION: fails if there are any, by that version of the database, golang.org/x/vulndb.
vulnerable() {
  local tool=.ci/tools/govulncheck reports
  go -C "$tool" build -o "$CI_OUT/" . golang.org/x/vulndb/cmd/indexdb
  reports=$(go -C "$tool" mod download -json "golang.org/x/vulndb@$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')/data/osv
  "$CI_OUT/govulncheck" -osv "$reports" -indexdb "$CI_OUT/indexdb" -accepted .ci/vulnerabilities . ./caddyfile/... ./mcpcache/...
}
