package report

import (
	"cmp"
	"time"
)

// Fleet is how instances are together that share their lists through a store.
type Fleet struct {
	// State is together, alone, or away.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Name is what this instance is called.
	Name string `json:"name"`
	// Members are the names of all that are together, in order; left out if this one is not.
	Members []string `json:"members,omitempty"`
	// OtherSecrets are the names of the members that have other secrets than this instance: sessions,
	// cursors and stored lists of one are unknown to the other. Left out if there are none.
	OtherSecrets []string `json:"other_secrets,omitempty"`
	// Leases are the lists that are being asked for right now, as far as this instance knows.
	Leases []Lease `json:"leases,omitempty"`
	// Failure is why the store is away, why this instance is alone, or why nothing can be saved;
	// left out if all is well.
	Failure string `json:"last_failure,omitempty"`
	// Ignored is how many stored lists were of no use: damaged, of others, or sealed with other
	// secrets.
	Ignored int `json:"ignored"`
}

// Lease is a list that one instance asks for, for all of them.
type Lease struct {
	Revision string `json:"revision"`
	Kind     string `json:"kind"`
	// Holder is the name of that instance.
	Holder string `json:"holder"`
}

// The states of a fleet.
const (
	// Together is one that tells others of changes, and is told by them.
	Together = "together"
	// Alone is one that does not, though the store can be reached.
	Alone = "alone"
	// Away is one that does not, as the store cannot be reached.
	Away = "away"
)

// describeFleet tells how an instance and its store are; nil if that is not shared.
func describeFleet(source Source) *Fleet {
	store, is := source.Fleet()
	if store == nil {
		return nil
	}
	f := &Fleet{State: Together, Since: is.Since, Name: is.Name, Members: is.Members, OtherSecrets: is.Strangers, Ignored: store.Ignored}
	if !is.Together {
		f.State = Alone
		if store.Failure != nil {
			f.State = Away
		}
		if store.Since.After(f.Since) {
			f.Since = store.Since
		}
	}
	if failure := cmp.Or(store.Failure, store.Trouble); failure != nil {
		f.Failure = failure.Error()
	}
	for _, l := range store.Leases {
		f.Leases = append(f.Leases, Lease{l.Revision.String(), l.Kind.String(), l.Holder})
	}
	return f
}
