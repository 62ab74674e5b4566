package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/millrace/millrace/"

// layers, lowest first. A package imports its own layer and those below, never above.
var layers = [][]string{
	{"internal/rollout", "internal/telemetry", "internal/version", "internal/units",
		"internal/termtext"},
	{ // pure domain: values in, values out
		"internal/access", "internal/diplomacy", "internal/diplomacyenv", "internal/tictactoe", "internal/episode",
		"internal/dispatch", "internal/engineshare", "internal/gameslots", "internal/memorylimit", "internal/scaling",
		"internal/enginepool", "internal/provider",
		"internal/diagnosis", "internal/alarm", "internal/runmachine",
		"internal/loadprobe", "internal/starvation",
		"internal/enginesim/batch", "internal/enginesim/constraint", "internal/enginesim/pseudolm",
		"internal/enginesim/tokenizer",
		"internal/settings", "internal/spec", "internal/sim", "internal/interval", "internal/capacity",
		"internal/chart", "internal/plan", "internal/experiment",
		"internal/runrecord", "internal/gamelist", "internal/runcompare",
	},
	{ // adapters: each speaks one technology
		"internal/engineurl", "internal/hostile", "internal/vllm", "internal/enginesim", "internal/buffer", "internal/fleet",
		"internal/adapterfiles", "internal/enginediscovery", "internal/workerregistry", "internal/dispatch/live",
		"internal/telemetry/spool", "internal/telemetry/store",
		"internal/telemetry/axiom", "internal/telemetry/prom", "internal/telemetry/grafana", "internal/telemetry/otel",
		"internal/api", "internal/cli",
		"internal/commandline", "internal/filelock", "internal/statefolder", "internal/provider/process",
		"internal/provider/childprocess", "internal/provider/exec", "internal/provider/kubernetes",
		"internal/diagnosis/reporttext", "internal/diagnosis/faultsuite", "internal/diagnosis/livefaults",
		"internal/experiment/report",
		"internal/plan/plantext",
		"internal/table", "internal/waitline", "internal/top",
		"internal/trainer", "internal/diplomacyview", "internal/supervise", "internal/arch",
		"internal/stack", "internal/crashtest",
		"internal/isolation", "internal/archive", "internal/retry", "internal/freeport", "internal/fleetsync",
		"internal/pagetable", "internal/grouphomes", "internal/outage",
		"internal/runsampler", "internal/fleetsample", "internal/tokenrates", "internal/diagnosisinput",
		"internal/eventscript", "internal/apiclient",
		"internal/temporalcli", "internal/lease", "internal/redistest", "internal/profiles", "internal/redisserver",
		"internal/redisscript", "internal/rediscluster", "internal/runindex", "internal/web",
	},
	{"activities", "workflows", "internal/runcontrol", "internal/runkeeper", "internal/gameworkers"}, // durable shell
	{ // wiring
		"worker", "config", "cmd", "internal/bench", "internal/connections", "internal/environments", "internal/savedgame",
		"internal/server", "internal/reload",
		"internal/replaycheck",
	},
}

// owners says who may import a technology. A path ending in / owns with all below it.
var owners = map[string][]string{
	"go.temporal.io/": {"activities", "workflows", "internal/crashtest", "internal/connections",
		"internal/gameworkers", "internal/replaycheck", "worker", "cmd/", "internal/telemetry/otel",
		"internal/telemetry/prom"},
	"github.com/redis/go-redis/": {"internal/buffer/", "internal/fleet/", "internal/workerregistry/",
		"internal/telemetry/store", "internal/stack",
		"internal/crashtest", "internal/isolation", "internal/connections", "internal/runindex", "internal/runsampler",
		"internal/tokenrates", "internal/lease", "internal/redistest", "internal/bench/site", "internal/bench/bufferload",
		"internal/bench/memorycost",
		"internal/redisserver", "internal/redisscript", "internal/rediscluster", "internal/grouphomes"},
	"github.com/alicebob/miniredis/": {"cmd/"},
	"github.com/sashabaranov/":       {"internal/vllm"},
	"github.com/axiomhq/":            {"internal/telemetry/axiom/"},
	"github.com/danielgtaylor/huma/": {"internal/api/"},
	"github.com/spf13/cobra":         {"internal/cli/", "cmd/"},
	"charm.land/":                    {"internal/cli/"},
	"github.com/goccy/go-yaml":       {"config", "internal/cli/"},
	"github.com/prometheus/": {"internal/enginesim/", "internal/telemetry/prom", "internal/telemetry/otel",
		"worker"},
	"go.opentelemetry.io/":           {"internal/telemetry/otel/"},
	"github.com/chromedp/":           {"internal/web/browser"},
	"k8s.io/":                        {"internal/provider/kubernetes/"},
	"sigs.k8s.io/":                   {"internal/provider/kubernetes/"},
	"github.com/klauspost/compress/": {"internal/buffer/", "internal/telemetry/axiom/"},
}

// clockless packages take time, chance and environment as arguments.
var clockless = []string{
	"internal/rollout", "internal/telemetry", "internal/termtext", "internal/diplomacy", "internal/diplomacyenv",
	"internal/tictactoe", "internal/episode",
	"internal/dispatch", "internal/dispatch/dispatchlog", "internal/engineshare", "internal/gameslots",
	"internal/diagnosis",
	"internal/diagnosis/changepoint", "internal/diagnosis/requestsim", "internal/diagnosis/tokensim",
	"internal/alarm", "internal/starvation", "internal/runmachine", "internal/enginesim/batch",
	"internal/scaling", "internal/scaling/terms", "internal/scaling/trial", "internal/enginepool", "internal/provider",
	"internal/settings", "internal/spec", "internal/sim", "internal/sim/virtualtime", "internal/sim/enginemodel",
	"internal/sim/serving", "internal/sim/workload", "internal/sim/buffermodel", "internal/interval",
	"internal/capacity",
	"internal/chart", "internal/plan", "internal/experiment",
	"internal/runrecord", "internal/gamelist", "internal/runcompare", "internal/sim/calibration",
	"internal/sim/openloop", "internal/sim/seed003", "internal/web/pageview",
}

type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// path is the package's place in the module.
func (p pkg) path() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal("go list:", err)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layer is where a package stands: its own line, or that of the closest parent that has one.
func layer(path string) int {
	for ; path != "."; path = filepath.Dir(path) {
		for i, names := range layers {
			if slices.Contains(names, path) {
				return i
			}
		}
	}
	return -1
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		from := layer(p.path())
		if from < 0 {
			t.Errorf("%s is not on the map: give it a line in layers and in ARCHITECTURE.md", p.path())
			continue
		}
		for _, imported := range p.Imports {
			path, ours := strings.CutPrefix(imported, module)
			if ours && layer(path) > from {
				t.Errorf("%s imports %s, which stands above it", p.path(), path)
			}
		}
	}
}

func TestTechnologiesHaveOwners(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			for technology, allowed := range owners {
				if strings.HasPrefix(imported, technology) && !slices.ContainsFunc(allowed, func(owner string) bool {
					return p.path() == strings.TrimSuffix(owner, "/") || strings.HasSuffix(owner, "/") &&
						strings.HasPrefix(p.path(), owner)
				}) {
					t.Errorf("%s imports %s, which belongs to %s", p.path(), imported, strings.Join(allowed, ", "))
				}
			}
		}
	}
}

// banned are the calls that make code depend on when, where or by what chance it runs.
var banned = map[string][]string{
	"time":         {"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker"},
	"os":           {"Getenv", "LookupEnv", "Environ"},
	"math/rand":    nil, // whole package
	"math/rand/v2": {"Int", "IntN", "Int64", "Int64N", "Uint64", "Float64", "Shuffle", "Perm", "N"},
}

func TestPureCodeReadsNoClock(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !slices.Contains(clockless, p.path()) {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range bannedUses(file) {
				t.Errorf("%s uses %s; take it as an argument", fset.Position(call.Pos()), selector(call))
			}
		}
	}
}

func bannedUses(file *ast.File) []*ast.SelectorExpr {
	names := map[string]string{} // local name -> import path
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if _, watched := banned[path]; !watched {
			continue
		}
		name := filepath.Base(strings.TrimSuffix(path, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	var uses []*ast.SelectorExpr
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok || id.Obj != nil { // a local variable of that name
			return true
		}
		path, watched := names[id.Name]
		if watched && (banned[path] == nil || slices.Contains(banned[path], sel.Sel.Name)) {
			uses = append(uses, sel)
		}
		return true
	})
	return uses
}

func selector(s *ast.SelectorExpr) string { return s.X.(*ast.Ident).Name + "." + s.Sel.Name }

// The map in ARCHITECTURE.md names every package of the top two levels.
func TestMapIsWritten(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages(t) {
		parts := strings.Split(p.path(), "/")
		if len(parts) <= 2 && !bytes.Contains(page, []byte("`"+p.path()+"`")) {
			t.Errorf("ARCHITECTURE.md does not name %s", p.path())
		}
	}
}

// Scripts of Redis are made by redisscript.New, which keeps them whole while a Cluster moves their slot.
func TestScriptsAreWhole(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if p.path() != "internal/redisscript" && bytes.Contains(text, []byte("redis."+"NewScript(")) {
				t.Errorf("%s/%s makes a script that may be half-run while a slot moves: use redisscript.New", p.path(), name)
			}
		}
	}
}

// Every package says what it is for, once, in a comment of its own.
func TestEveryPackageHasOneComment(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		comments := 0
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
				parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil {
				comments++
			}
		}
		if len(p.GoFiles) > 0 && comments != 1 {
			t.Errorf("%s has %d package comments, want 1", p.path(), comments)
		}
	}
}
