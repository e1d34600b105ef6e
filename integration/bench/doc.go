// Command bench measures what the cache costs, next to what is possible. README.md
// beside it says how, and what came out.
//
//	go run ./integration/bench [-short] [-rounds N] [-duration D] [-tools 5,50,500]
//	                           [-only NAME,...] [-readme] [-check]
//	go run ./integration/bench -requests 10m [-only NAME,...] [-check]
//
// The program plays several roles: it starts itself again as each server, and
// drives the load by itself. A process that was started this way ends when its
// standard input does, so that none outlives the program. It knows Caddy as a user
// does, by a Caddyfile, and nothing of the packages that it measures.
package main
