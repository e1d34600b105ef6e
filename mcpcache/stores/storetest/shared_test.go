package storetest_test

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// The store in memory is what it stands for in the tests of others.
func TestShared(t *testing.T) {
	storetest.Run(t, func(*testing.T) stores.Store { return &storetest.Shared{Trial: storetest.NewTrial()} })
	store := storetest.NewTrial()
	storetest.RunForgetful(t, &storetest.Shared{Trial: store}, store.Forget)
	storetest.RunFleet(t, func(*testing.T) stores.Fleet { return &storetest.Shared{Trial: storetest.NewTrial()} })
}
