package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// pseudoTerminal returns both ends of one.
func pseudoTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

// What a command prints as JSON is escaped for a terminal, and left as it is for
// a file.
func TestJSONForTerminals(t *testing.T) {
	screen, tty := pseudoTerminal(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const text = "\"\u009b2J\u202e\"\n"
	show := func(out *os.File, args ...string) {
		cmd := operator(&cobra.Command{Use: "test"}, func(_ *adminClient, out io.Writer, _ []string) (int, error) {
			_, err := io.WriteString(out, text)
			return 0, err
		})
		cmd.SetArgs(append(args, "--address", "127.0.0.1:1"))
		cmd.SetOut(out)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	show(tty, "--json")
	show(file, "--json")
	for in, want := range map[*os.File]string{screen: `"\u009b2J\u202e"` + "\r\n", file: text} {
		if in == file {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
		}
		read := make([]byte, 100)
		if n, err := in.Read(read); string(read[:n]) != want {
			t.Errorf("got %q, %v; want %q", read[:n], err, want)
		}
	}
}
