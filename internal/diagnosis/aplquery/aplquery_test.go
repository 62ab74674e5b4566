package aplquery

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/observe/axiom/resources"
)

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

// TestEveryCauseHasAQuery, each one query, of fields that rows have.
func TestEveryCauseHasAQuery(t *testing.T) {
	t.Parallel()
	row := resources.FullRow(time.Unix(0, 0))
	has := map[diagnosis.CauseName]int{}
	for _, q := range queries {
		for _, cause := range q.Causes {
			has[cause]++
		}
		for _, field := range strings.FieldsFunc(q.Fields, func(r rune) bool { return strings.ContainsRune(", \n", r) }) {
			if _, known := row[field]; !known {
				t.Errorf("%s: rows have no %s", q.Shows, field)
			}
		}
	}
	known := causes(t)
	if len(known) < 22 {
		t.Fatalf("%d causes: %v", len(known), known)
	}
	for _, cause := range known {
		if has[cause] != 1 {
			t.Errorf("%s has %d queries", cause, has[cause])
		}
	}
}

// TestQueriesAreAsCommitted: whoever changes one tries it in Axiom; -update writes the file.
func TestQueriesAreAsCommitted(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var text strings.Builder
	for _, q := range queries {
		one := Query(q.Causes[0], Scope{Dataset: "rl", Run: "demo", From: at, To: at.Add(time.Hour)})
		fmt.Fprintf(&text, "--- %s\n%s\n", one.Shows, one.APL)
	}
	markdowntest.File(t, "testdata/queries.txt", text.String())
}

// TestQueryOfAReport is whole: what is pasted takes each event once, of the run and its time, whatever the run's name.
func TestQueryOfAReport(t *testing.T) {
	t.Parallel()
	r := diagnosis.Report{Run: "it's", Findings: []diagnosis.Finding{{Cause: diagnosis.CauseDrops}},
		Causes: []diagnosis.Cause{
			{Name: diagnosis.CauseStaleDrops, Decision: diagnosis.IsCause}, // the same query
			{Name: diagnosis.CauseEngineLost, Decision: diagnosis.IsCause},
			{Name: diagnosis.CauseLatency, Decision: diagnosis.Possible},
		}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	got := WithQueries(r, "", [2]time.Time{at, at.Add(time.Minute)}).APL
	const first = `['millrace']
| where kind == 'group_dropped'
    and run_id == 'it\'s'
    and _time >= datetime(2026-01-02T03:04:05Z)
    and _time <= datetime(2026-01-02T03:05:06Z)
| summarize arg_max(_time, group_id, code) by event_id
| summarize groups = count() by code
| order by groups desc`
	if len(got) != 2 || got[0].APL != first {
		t.Errorf("%d queries, the first\n%s", len(got), got[0].APL)
	}
	if strings.Contains(got[1].APL, "run_id") || !slices.Contains(strings.Fields(got[1].APL), "'engine_changed'") {
		t.Error("engines belong to no run:\n" + got[1].APL)
	}
}
