// Package planted goes wrong as the environment says, for the tests of retest.
package planted

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// fault is what goes wrong; runs is a file that gets a letter at each run.
var fault, runs = os.Getenv("PLANTED"), os.Getenv("PLANTED_RUNS")

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if fault == "process" && code == 0 {
		fmt.Fprintln(os.Stderr, "running TestHealthy, TestPlanted: exit status 3")
		code = 1
	}
	os.Exit(code)
}

func TestHealthy(t *testing.T) { t.Log("nothing is said of what passes") }

func TestPlanted(t *testing.T) {
	run := again(t)
	word, _, _ := strings.Cut(fault, " ")
	switch word {
	case "always":
		t.Fatal("it fails as it should")
	case "once", "twice":
		t.Run("inner", func(t *testing.T) {
			if run == 1 || run == 2 && word == "twice" {
				t.Errorf("it fails in run %d", run)
			}
		})
	case "skipped":
		if run > 1 {
			t.Skip("it says no more")
		}
		t.Error("it fails in the first run")
	case "exit":
		os.Exit(3)
	case "exit0":
		os.Exit(0)
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		t.Fatal("it lives on:", err)
	case "fatal":
		new(sync.Mutex).Unlock()
	case "panic":
		panic("as it should")
	case "panics":
		go panic("as it should")
		time.Sleep(time.Hour)
	case "hang":
		time.Sleep(time.Hour)
	}
	if strings.HasSuffix(fault, "leak") {
		go time.Sleep(time.Hour)
	}
}

func TestMany(t *testing.T) {
	if fault == "many" {
		t.Error("it fails as it should")
	}
}

func TestMany2(t *testing.T) { TestMany(t) }
func TestMany3(t *testing.T) { TestMany(t) }
func TestMany4(t *testing.T) { TestMany(t) }
func TestMany5(t *testing.T) { TestMany(t) }
func TestMany6(t *testing.T) { TestMany(t) }

// again counts the runs of this program.
func again(t *testing.T) int {
	before, err := os.ReadFile(runs)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(runs, append(before, 'x'), 0o600); err != nil {
		t.Fatal(err)
	}
	return len(before) + 1
}
