package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// stub makes a command that writes down its arguments and says what a file holds.
func stub(t *testing.T, dir, name string) {
	t.Helper()
	script := "#!/bin/sh\necho " + name + ` "$*" >> '` + dir + `/calls'` + "\ncat '" + dir + "/says' 2>/dev/null\nexit 0\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestExampleScripts runs the scripts that are handed out against commands that only write down how they are called.
func TestExampleScripts(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, tt := range []struct {
		script, says string
		commands     []string
		states       string // of what is listed, by id
		calls        []string
	}{
		{"slurm.sh", "millrace.ours.a|RUNNING|gpu7|31|None\nmillrace.ours.b|PENDING||32|Priority\n" +
			"millrace.ours.c|NODE_FAIL|gpu8|33|NodeDown\nmillrace.theirs.d|RUNNING|gpu9|34|None\nother|RUNNING|gpu9|35|None\n",
			[]string{"sbatch", "scancel", "squeue"},
			"a running http://gpu7:20031; b pending ; c failed ",
			[]string{"sbatch --parsable --job-name=millrace.ours.new --dependency=singleton --partition=gpu",
				"scancel --user=", "--name=millrace.ours.new"}},
		{"gcloud.sh", "ours-a,RUNNING,10.0.0.4\nours-b,STAGING,\nours-c,TERMINATED,\n", []string{"gcloud"},
			"a running http://10.0.0.4:8000; b pending ; c failed ",
			[]string{"gcloud compute instances create ours-new --zone=z1 --source-instance-template=vllm " +
				"--labels=millrace-deployment=ours", "gcloud compute instances delete ours-new --zone=z1 --quiet"}},
	} {
		t.Run(tt.script, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range tt.commands {
				stub(t, dir, name)
			}
			says := filepath.Join(dir, "says")
			if err := os.WriteFile(says, []byte(tt.says), 0o600); err != nil {
				t.Fatal(err)
			}
			script, err := filepath.Abs("../../../deploy/providers/" + tt.script)
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Start: "'" + script + "' start", Stop: "'" + script + "' stop", List: "'" + script + "' list",
				Deployment: "ours", Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "MODEL=m", "ZONE=z1",
					"TEMPLATE=vllm", "SBATCH_OPTIONS=--partition=gpu"}}
			p := open(t, cfg, "")
			all, err := p.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range all {
				got = append(got, string(e.ID)+" "+string(e.State)+" "+e.URL)
			}
			if strings.Join(got, "; ") != tt.states {
				t.Errorf("listed %q, want %q", strings.Join(got, "; "), tt.states)
			}
			for _, id := range []rollout.EngineID{"a", "new"} { // the first is there
				if err := p.Start(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Stop(t.Context(), "new"); err != nil {
				t.Fatal(err)
			}
			text, _ := os.ReadFile(filepath.Join(dir, "calls"))
			for _, call := range tt.calls {
				if strings.Count(string(text), call) != 1 {
					t.Errorf("%q was not called once:\n%s", call, text)
				}
			}
		})
	}
}
