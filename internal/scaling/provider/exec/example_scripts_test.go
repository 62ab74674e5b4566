package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// stub makes a command that writes down its arguments and says what a file holds, or an address if it is asked for one.
func stub(t *testing.T, dir, name string) {
	t.Helper()
	script := "#!/bin/sh\necho " + name + ` "$*" >> '` + dir + "/calls'\n" +
		"if [ -e '" + dir + "/fails' ]; then echo 503: try later >&2; exit 1; fi\n" +
		"case \"$*\" in *--endpoint*) echo 10.0.0.9:8000; exit 0 ;; esac\n" +
		"cat '" + dir + "/says' 2>/dev/null\nexit 0\n"
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
			"millrace.ours.c|NODE_FAIL|gpu8|33|Node \"gpu8\" down\n" +
			"millrace.theirs.d|RUNNING|gpu9|34|None\nother|RUNNING|gpu9|35|None\n",
			[]string{"sbatch", "scancel", "squeue"},
			"a running http://gpu7:20031; b ordered ; c failed ",
			[]string{"sbatch --parsable --job-name=millrace.ours.new --dependency=singleton --partition=gpu",
				"--name=millrace.ours.a"}},
		{"gcloud.sh", "ours-a,RUNNING,10.0.0.4\nours-b,STAGING,\nours-c,TERMINATED,\n", []string{"gcloud"},
			"a running http://10.0.0.4:8000; b ordered ; c failed ",
			[]string{"gcloud compute instances create ours-new --zone=z1 --source-instance-template=vllm " +
				"--labels=millrace-deployment=ours", "gcloud compute instances delete ours-a --zone=z1 --quiet"}},
		{"skypilot.sh", `[{"name": "ours-a", "status": "UP"}, {"name": "ours-b", "status": "INIT", "init_kind": "launching"},
			{"name": "ours-c", "status": "INIT", "init_kind": "unhealthy"}, {"name": "ours-d", "status": "STOPPED"},
			{"name": "theirs", "status": "UP"}]`, []string{"sky"},
			"a running http://10.0.0.9:8000; b ordered ; c failed ; d failed ",
			[]string{"sky launch --async --yes --detach-run --use-spot --cluster ours-new task.yaml",
				"sky down --yes ours-a"}},
		{"modal.sh", `[{"App ID": "ap-1", "Description": "ours-a", "State": "deployed", "Tasks": "1"},
			{"App ID": "ap-2", "Description": "ours-b", "State": "deployed", "Tasks": "0"},
			{"App ID": "ap-3", "Description": "ours-c", "State": "disabled", "Tasks": "0"},
			{"App ID": "ap-4", "Description": "ours-old", "State": "stopped", "Tasks": "0"},
			{"App ID": "ap-5", "Description": "theirs", "State": "deployed", "Tasks": "1"},
			{"app_id": "ap-6", "description": "ours-e", "state": "stopping...", "tasks": "0"},
			{"app_id": "ap-7", "description": "ours-f", "state": "deployed", "tasks": "1"}]`, []string{"modal"},
			"a running https://lab--ours-a-serve.modal.run; b ordered ; c failed ; e stopping ; " +
				"f running https://lab--ours-f-serve.modal.run",
			[]string{"modal deploy --name ours-new app.py", "modal app stop --yes ours-a"}},
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
			script, err := filepath.Abs("../../../../deploy/providers/" + tt.script)
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Start: "'" + script + "' start", Stop: "'" + script + "' stop", List: "'" + script + "' list",
				Deployment: "ours", Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "MODEL=m", "ZONE=z1",
					"TEMPLATE=vllm", "SBATCH_OPTIONS=--partition=gpu", "SKY_OPTIONS=--use-spot", "TASK=task.yaml",
					"APP=app.py", "WORKSPACE=lab"}}
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
			for _, id := range []rollout.EngineID{"a", "nobody"} {
				if err := p.Stop(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			text, _ := os.ReadFile(filepath.Join(dir, "calls"))
			for _, call := range tt.calls {
				if strings.Count(string(text), call) != 1 {
					t.Errorf("%q was not called once:\n%s", call, text)
				}
			}
			// What does not answer has not listed nothing, and has stopped nothing.
			if err := os.WriteFile(filepath.Join(dir, "fails"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if all, err := p.List(t.Context()); err == nil || !strings.Contains(err.Error(), "503: try later") {
				t.Errorf("listed %v while its command fails: %v", all, err)
			}
			if err := p.Stop(t.Context(), "a"); err == nil {
				t.Error("stopped while its command fails")
			}
		})
	}
}
