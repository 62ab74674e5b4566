package deploy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../../.."

// composed is the project of compose files with some profiles, read and checked as docker compose does.
func composed(t *testing.T, profiles []string, files ...string) *types.Project {
	t.Helper()
	var paths []string
	for _, f := range files {
		paths = append(paths, filepath.Join(root, "deploy/docker", f))
	}
	options, err := cli.NewProjectOptions(paths, cli.WithProfiles(profiles),
		cli.WithEnv([]string{"MILLRACE_VERSION=v1"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose(t *testing.T) {
	t.Parallel()
	always := []string{"redis", "server", "temporal", "worker-1", "worker-2"}
	for _, tt := range []struct {
		name     string
		profiles []string
		files    []string
		engines  []string
	}{
		{"no engines", nil, []string{"compose.yaml"}, nil},
		{"simulated", []string{"simulated"}, []string{"compose.yaml"}, []string{"engine-simulated"}},
		{"gpu", []string{"gpu"}, []string{"compose.yaml"}, []string{"engine-vllm"}},
		{"tls", []string{"simulated"}, []string{"compose.yaml", "compose.tls.yaml"}, []string{"engine-simulated"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := composed(t, tt.profiles, tt.files...)
			want := append(slices.Clone(tt.engines), always...)
			slices.Sort(want)
			if got := p.ServiceNames(); !slices.Equal(got, want) {
				t.Errorf("services %v, want %v", got, want)
			}
			for name, s := range p.Services {
				checkService(t, name, s)
			}
			for _, name := range tt.engines {
				if !slices.Contains(p.Services[name].Networks["default"].Aliases, "engines") {
					t.Errorf("%s is not behind the name that service.yaml follows", name)
				}
			}
		})
	}
}

func checkService(t *testing.T, name string, s types.ServiceConfig) {
	t.Helper()
	if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
		t.Errorf("%s: the image %s has no version", name, s.Image)
	}
	if strings.HasPrefix(s.Image, "millrace:") {
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.Build == nil {
			t.Errorf("%s has more rights than it needs, or no way to be built", name)
		}
		if s.Restart != "unless-stopped" {
			t.Errorf("%s is not started again", name)
		}
	}
	// A file that is mounted by itself stays what it was when a new one is put in its place: a token that was withdrawn
	// would be taken on.
	for _, v := range s.Volumes {
		if strings.HasPrefix(v.Source, "/tmp") {
			t.Errorf("%s: hosts empty %s, and adapters are to be kept", name, v.Source)
		}
		if v.Type == types.VolumeTypeBind && filepath.Ext(v.Source) != "" {
			t.Errorf("%s: %s is mounted as a file, and would not be read again", name, v.Source)
		}
	}
	if len(s.Secrets)+len(s.Configs) > 0 {
		t.Errorf("%s: secrets and configs of compose are files that are mounted", name)
	}
	for _, c := range [][]string{s.Command, s.Entrypoint} {
		if len(c) > 0 && strings.Contains(c[0], " ") {
			t.Errorf("%s: %q would be one word", name, c)
		}
	}
}

// TestRedisKeepsWhatItAcknowledges: the log is on, and nothing is evicted.
func TestRedisKeepsWhatItAcknowledges(t *testing.T) {
	t.Parallel()
	command := strings.Join(composed(t, nil, "compose.yaml").Services["redis"].Command, " ")
	for _, want := range []string{"--appendonly yes", "--maxmemory-policy noeviction"} {
		if !strings.Contains(command, want) {
			t.Errorf("redis is started without %s", want)
		}
	}
}

// millrace runs the program that was built.
func millrace(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	binary := os.Getenv("MILLRACE_BINARY")
	if binary == "" {
		binary = filepath.Join(root, ".bin/millrace")
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("millrace %s: %v\n%s\n%s", strings.Join(args, " "), err, out, stdin)
	}
	return string(out)
}

// TestConfigurationsOfCompose: the files that are mounted are ones that server and worker take.
func TestConfigurationsOfCompose(t *testing.T) {
	t.Parallel()
	for _, f := range []string{"service.yaml", "service.tls.yaml"} {
		millrace(t, "", "config", "check", "--service", filepath.Join(root, "deploy/docker/service", f))
	}
}
