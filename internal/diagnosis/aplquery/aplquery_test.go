package aplquery_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/aplquery"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/axiom/apl"
	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
)

// recorded is a run on one saturated engine, and a fake Axiom that was given its rows, each step's twice: delivery is
// at least once.
func recorded(t *testing.T) (*runrecord.Record, *axiomtest.Server, aplquery.Scope) {
	t.Helper()
	f, err := os.Open("testdata/saturated.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	record, err := runrecord.Read("saturated", f)
	if err != nil {
		t.Fatal(err)
	}
	first, last := record.Events[0].At, record.RecordedAt
	rows := []telemetry.Row{telemetry.FullRow(first.Add(-time.Hour))}
	for _, s := range record.Steps {
		e := telemetry.Event{At: s.Service.CompletedAt, Run: record.Run.ID, Key: fmt.Sprint(s.Step),
			Body: telemetry.StepCompleted{Record: s}}
		rows = append(rows, telemetry.Flat(e), telemetry.Flat(e))
	}
	for _, e := range record.Events {
		rows = append(rows, telemetry.Flat(e))
	}
	fake := &axiomtest.Server{}
	body, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/v1/datasets/rl/ingest", strings.NewReader(string(body)))
	r.Header.Set("Authorization", "Bearer xaat-test")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	fake.ServeHTTP(w, r)
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"failed":0`) {
		t.Fatal(w.Code, w.Body.String())
	}
	return record, fake, aplquery.Scope{Dataset: "rl", Run: record.Run.ID, From: first.Add(-time.Minute), To: last}
}

// ask answers a query from the rows.
func ask(t *testing.T, fake *axiomtest.Server, q aplquery.Query) *apl.Table {
	t.Helper()
	table, err := fake.Query(q.APL, time.Time{}, time.Time{})
	if err != nil {
		t.Fatalf("%s: %v\n%s", q.Title, err, q.APL)
	}
	return table
}

// causes are all that diagnosis has a constant for.
func causes(t *testing.T) []diagnosis.CauseName {
	t.Helper()
	var all []diagnosis.CauseName
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			typ, ok := spec.Type.(*ast.Ident)
			if !ok || typ.Name != "CauseName" || len(spec.Values) != 1 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				name, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, diagnosis.CauseName(name))
			}
			return true
		})
	}
	return append(all, diagnosis.CauseNoWorker, diagnosis.CauseNoEngine, diagnosis.CauseModel, diagnosis.CauseGamesFail)
}

// TestEveryCauseHasQueriesThatAreAnswered, from the rows of a recorded run, each time asked for.
func TestEveryCauseHasQueriesThatAreAnswered(t *testing.T) {
	t.Parallel()
	_, fake, scope := recorded(t)
	known := causes(t)
	if len(known) < 22 {
		t.Fatalf("%d causes: %v", len(known), known)
	}
	for _, cause := range known {
		queries := aplquery.Queries(cause, scope)
		if len(queries) == 0 || !aplquery.Known(cause) {
			t.Errorf("%s has no query of its own", cause)
		}
		for _, q := range queries {
			if q.Title == "" {
				t.Errorf("%s: a query without a title", cause)
			}
			ask(t, fake, q)
		}
	}
	if unknown := aplquery.Queries("not_yet", scope); len(unknown) != 1 || unknown[0] != aplquery.Steps(scope) {
		t.Errorf("%v", unknown)
	}
}

// TestAnswersAreDiagnosisOwn: what Axiom answers is what diagnosis says of the same run.
func TestAnswersAreDiagnosisOwn(t *testing.T) {
	t.Parallel()
	record, fake, scope := recorded(t)
	report := diagnosis.Diagnose(diagnosis.Input{Spec: record.Run.Spec, Records: record.Steps})
	near := func(what string, got any, want, within float64) {
		t.Helper()
		v, ok := got.(float64)
		if !ok || math.Abs(v-want) > within*math.Abs(want)+1e-9 {
			t.Errorf("%s: Axiom answers %v, diagnosis says %g", what, got, want)
		}
	}
	steps := ask(t, fake, aplquery.Steps(scope))
	if len(steps.Rows) != len(record.Done()) {
		t.Errorf("%d steps of %d", len(steps.Rows), len(record.Done()))
	}
	for i, s := range record.Done() {
		near(fmt.Sprintf("wait of step %d", s.Step), steps.Rows[i]["phase_wait_s"], s.Trainer.Phases[rollout.PhaseWait], 1e-9)
	}
	var waited, lost float64
	for _, s := range record.Done() {
		if s.Step > 0 {
			waited += s.Trainer.Phases[rollout.PhaseWait]
		}
	}
	for _, l := range report.Ledger.Losses {
		if l.Phase == rollout.PhaseWait {
			lost += l.Sec
		}
	}
	starved := ask(t, fake, aplquery.Starvation(scope)).Rows[0]
	near("seconds waited", starved["waited_s"], waited, 1e-9)
	near("seconds lost to waiting", starved["waited_s"], lost, 0.01)
	computing := ask(t, fake, aplquery.Computing(scope)).Rows[0]
	near("computing", computing["computing_share"], report.Goodput, 0.03)

	// Tokens per second: the engines' counters, as the step records have them for their own windows.
	var in, out, window float64
	for _, s := range record.Done() {
		f := s.Service.Fleet
		in, out, window = in+f.InputTPS*f.WindowSec, out+f.OutputTPS*f.WindowSec, window+f.WindowSec
	}
	tokens := ask(t, fake, aplquery.Throughput(scope)).Rows[0]
	near("input tokens per second", tokens["input_tokens_per_s"], in/window, 0.1)
	near("output tokens per second", tokens["output_tokens_per_s"], out/window, 0.1)
}

// TestNamesAreQuoted: a run's name comes from people.
func TestNamesAreQuoted(t *testing.T) {
	t.Parallel()
	_, fake, scope := recorded(t)
	scope.Run = `it's \ "x" | take 1`
	for _, q := range aplquery.Overview(scope) {
		ask(t, fake, q)
	}
	if got := ask(t, fake, aplquery.Steps(scope)); len(got.Rows) != 0 {
		t.Errorf("%v", got.Rows)
	}
}

// TestRecordIsSmall keeps what a clone fetches small.
func TestRecordIsSmall(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(filepath.Join("testdata", "saturated.json.gz"))
	if err != nil || info.Size() > 100<<10 {
		t.Error(info, err)
	}
}
