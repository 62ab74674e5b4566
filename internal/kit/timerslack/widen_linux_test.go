package timerslack

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("MILLRACE_TEST_WIDENS") != "" {
		Widen()
		fmt.Print(os.Getpid(), os.Args[1:], slack())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A process that widens its slack has it, and is the same process with the same arguments.
func TestWiden(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "a", "b c")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_WIDENS=1")
	out, err := cmd.Output()
	if want := fmt.Sprint(cmd.Process.Pid, []string{"a", "b c"}, Slack); err != nil || string(out) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
}
