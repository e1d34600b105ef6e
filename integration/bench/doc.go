// Command bench measures what the cache costs, next to what is possible.
//
//	go run ./integration/bench [-short] [-rounds N] [-duration D] [-tools 5,50,500]
//	                           [-revision R] [-only NAME,...] [-check]
//
// It starts servers on loopback, each in a process of its own, all that is
// measured on one core and the load on another. The contenders take turns in
// every round, in a new order each time, and what counts is the ratio of two
// contenders in the same round: the machine's moods cancel out. Rounds in which
// something else had the core are repeated, and left out if that did not help.
// The result is Markdown: tables of medians, and the goals with what was
// reached.
//
// Requests per second are per core: requests by the seconds that the server's
// process has had a core (Linux; elsewhere by the seconds that went by). Latency
// is that of a single connection, in rounds of its own.
//
// -short measures the few contenders that -check needs, and those of the other
// sorts that cost little time. -check ends with status 1 when a hit at 50 tools
// reaches less than 0.85 of a handler that writes ready bytes, by the median and by
// the best rounds.
//
// The process is one program in several roles: the same executable is started
// again as each server and as the load. A process that was started this way ends
// when its standard input does, so that none outlives the program.
package main
