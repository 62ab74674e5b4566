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
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/millrace/millrace/"

// districts, lowest first. A package imports its own district and those below it, never one above. The closest parent
// that has a line here says where a package stands. Within a district Go's own rule, no circles, is enough.
var districts = []string{
	"internal/arch",
	"internal/kit",       // helpers that know nothing of rollouts
	"internal/rollout",   // the vocabulary: types that every district speaks in
	"internal/game",      // what is played, and how an episode is played
	"internal/store",     // all that knows Redis
	"internal/engine",    // one engine's life: client, dispatch, shares, fleet, adapters
	"internal/scaling",   // how many engines there shall be, and who gets them
	"internal/run",       // what a run decides
	"activities",         // side effects that workflows ask for
	"workflows",          // what must happen, durably
	"internal/control",   // runs from outside: start, resume, stop, delete, keep
	"internal/observe",   // ways out: Axiom, Prometheus, OTel
	"internal/diagnosis", // why a step was slow
	"internal/simulate",  // runs and engines in virtual time
	"internal/face",      // who looks from outside: API, CLI, terminal, page
	"internal/process/connections",
	"worker",           // reads no file, and knows no provider of engines: it is given both
	"config",           // files that people write
	"internal/process", // what a process is built of
	"cmd",
}

// exceptions are imports that still run up, each with its reason.
var exceptions = map[string]string{}

// owners says who may import a technology. A path ending in / owns with all below it.
var owners = map[string][]string{
	"go.temporal.io/": {"activities", "workflows", "internal/process/connections",
		"internal/control/gameworkers", "internal/control/replaycheck", "worker", "cmd/",
		"internal/observe/otel",
		"internal/observe/prom/"},
	"github.com/redis/go-redis/": {"internal/store/buffer/", "internal/engine/fleet/",
		"internal/engine/share/workerregistry",
		"internal/store/eventstore/", "internal/process/connections", "internal/store/runindex",
		"internal/observe/runsampler",
		"internal/engine/tokenrates", "internal/store/lease", "internal/store/browsersession", "internal/store/mailbox",
		"internal/store/loranames",
		"internal/store/redistest",
		"internal/store/redisserver", "internal/store/redisscript", "internal/store/rediscluster",
		"internal/engine/share/grouphomes"},
	"github.com/alicebob/miniredis/": {"cmd/"},
	"github.com/sashabaranov/":       {"internal/engine/vllm"},
	"github.com/axiomhq/":            {"internal/observe/axiom/"},
	"github.com/danielgtaylor/huma/": {"internal/face/api/"},
	"github.com/spf13/cobra":         {"internal/face/cli/", "cmd/"},
	"charm.land/":                    {"internal/face/cli/"},
	"github.com/goccy/go-yaml": {"internal/kit/settings/document", "internal/face/cli/", "internal/face/api/",
		"internal/scaling/provider/kubernetes"},
	"github.com/prometheus/": {"internal/simulate/enginesim/", "internal/observe/prom/", "internal/observe/otel",
		"worker"},
	"go.opentelemetry.io/": {"internal/observe/otel/"},
	"k8s.io/": {"internal/scaling/provider/kubernetes/coreclient", "internal/scaling/provider/kubernetes/fakeapi",
		"internal/scaling/provider/kubernetes/fakekubelet"},
	"github.com/klauspost/compress/": {"internal/store/buffer/", "internal/observe/axiom/"},
	"github.com/parquet-go/":         {"internal/game/promptset", "internal/face/cli/"},
}

// clockless packages take time, chance and environment as arguments.
var clockless = []string{
	"internal/rollout", "internal/rollout/runspec", "internal/rollout/enginestate", "internal/rollout/steprecord",
	"internal/rollout/runstatus", "internal/rollout/telemetry", "internal/kit/termtext", "internal/game/diplomacy",
	"internal/game/diplomacyenv",
	"internal/game/tictactoe", "internal/game/episode",
	"internal/engine/dispatch", "internal/engine/dispatch/dispatchlog", "internal/engine/share",
	"internal/control/gameslots",
	"internal/diagnosis",
	"internal/diagnosis/changepoint", "internal/diagnosis/rating",
	"internal/run/alarm", "internal/store/starvation", "internal/run/runmachine",
	"internal/simulate/enginesim/batch",
	"internal/scaling", "internal/scaling/terms", "internal/scaling/supply",
	"internal/scaling/provider",
	"internal/kit/settings", "internal/kit/settings/document", "internal/rollout/spec", "internal/simulate/sim",
	"internal/simulate/sim/virtualtime", "internal/simulate/sim/enginemodel",
	"internal/simulate/sim/serving", "internal/simulate/sim/workload", "internal/simulate/sim/buffermodel",
	"internal/kit/stat",
	"internal/engine/capacity",
	"internal/kit/chart", "internal/simulate/plan",
	"internal/diagnosis/runrecord", "internal/game/gamelist", "internal/diagnosis/runcompare",
	"internal/simulate/sim/calibration",
	"internal/face/web/pageview",
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

// district is where a package stands: its own line, or that of the closest parent that has one.
func district(path string) int {
	for ; path != "."; path = filepath.Dir(path) {
		if i := slices.Index(districts, path); i >= 0 {
			return i
		}
	}
	return -1
}

// excepted reports whether the import from one package, or all below it, to another is one that may run up.
func excepted(from, to string) bool {
	for pair := range exceptions {
		a, b, _ := strings.Cut(pair, " ")
		if (from == a || strings.HasPrefix(from, a+"/")) && (to == b || strings.HasPrefix(to, b+"/")) {
			return true
		}
	}
	return false
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		from := district(p.path())
		if from < 0 {
			t.Errorf("%s is in no district: give its folder a line in districts and in ARCHITECTURE.md", p.path())
			continue
		}
		for _, imported := range p.Imports {
			path, ours := strings.CutPrefix(imported, module)
			if ours && district(path) > from && !excepted(p.path(), path) {
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

// A newcomer walks a dozen doors: at most 14 folders stand directly under internal, and ARCHITECTURE.md names each.
func TestMapIsWritten(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range districts {
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("ARCHITECTURE.md does not name %s", name)
		}
	}
	folders, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) > 14 {
		t.Errorf("%d folders stand under internal, at most 14 may", len(folders))
	}
}

// Who makes a change finds the files that the map sends them to.
func TestPathsOfTheMapAreThere(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, changes, _ := strings.Cut(string(page), "\n## Where a change goes\n")
	changes, _, _ = strings.Cut(changes, "\n## ")
	paths := regexp.MustCompile("`([a-z_]+(?:/[a-z_.]+)+)`").FindAllStringSubmatch(changes, -1)
	if len(paths) < 30 {
		t.Errorf("%d paths are found, want those of all rows", len(paths))
	}
	for _, path := range paths {
		if !exists("../../"+path[1]) && !exists("../"+path[1]) {
			t.Errorf("ARCHITECTURE.md sends changes to %s, which is not there", path[1])
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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
			if p.path() != "internal/store/redisscript" && bytes.Contains(text, []byte("redis."+"NewScript(")) {
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
