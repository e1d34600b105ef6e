package mcpcache

import "math/rand/v2"

// toolkitStepKinds are the things that can happen with a toolkit.
var toolkitStepKinds = []stepKind{
	{"joined list", 40, (*world).stepJoined, nil},
	{"joined lists", 5, (*world).stepJoinedLists, nil},
	{"joined listen", 8, (*world).stepJoinedListen, nil},
	{"joined call", 8, (*world).stepJoinedCall, nil},
	{"joined elsewhere", 8, (*world).stepJoinedElsewhere, nil},
	{"joined again", 3, (*world).stepJoinedAgain, nil},
	{"change", 14, ofAServer((*world).stepChange), nil},
	{"notice", 3, ofAServer((*world).stepNotice), nil},
	{"end stream", 2, ofAServer((*world).stepEndStream), nil},
	{"fail", 5, ofAServer((*world).stepFail), nil},
	{"repair", 6, ofAServer((*world).stepRepair), nil},
	{"hold", 4, ofAServer((*world).stepHold), nil},
	{"release", 6, ofAServer((*world).stepRelease), nil},
	{"hints", 3, ofAServer((*world).stepHints), nil},
	{"sleep", 12, (*world).stepSleep, nil},
	{"reload", 3, (*world).stepReload, nil},
	{"restart", 2, (*world).stepRestart, nil},
	{"cancel", 2, (*world).stepCancel, nil},
	{"list", 15, (*world).stepList, worldConfig.isAlone},
	{"initialize", 5, (*world).stepInitialize, worldConfig.isAlone},
	{"listen", 6, (*world).stepListen, worldConfig.isAlone},
	{"call", 4, (*world).stepCall, worldConfig.isAlone},
	{"overtake", 3, (*world).stepOvertake, worldConfig.isAlone},
	{"cut", 4, (*world).stepCut, worldConfig.isFleet},
	{"delivery", 3, (*world).stepDelivery, worldConfig.isFleet},
	{"emptied", 1, (*world).stepEmptied, worldConfig.isFleet},
	{"heal", 10, (*world).stepHeal, worldConfig.isFleet},
}

func (c worldConfig) isAlone() bool { return c.alone }

// ofAServer is a step of one of the servers.
func ofAServer(run func(*world, *rand.Rand)) func(*world, *rand.Rand) {
	return func(w *world, r *rand.Rand) { run(pick(r, w.servers()...), r) }
}
