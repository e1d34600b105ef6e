package process

import (
	"github.com/prometheus/procfs"
)

// ResidentMemory returns how many bytes are resident of each process group, which is called as
// the program's PID that leads it. Shared pages count for each process that has them. Where the
// system does not tell, as only Linux does, there are none.
func ResidentMemory() map[int]uint64 {
	running, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	resident := make(map[int]uint64)
	for _, p := range running {
		if stat, err := p.Stat(); err == nil { // it may have ended meanwhile
			resident[stat.PGRP] += uint64(stat.ResidentMemory())
		}
	}
	return resident
}
