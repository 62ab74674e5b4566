package telemetry_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// TestSchemaHasEveryFieldOfEveryRow: what rows have is in the schema, with its type.
func TestSchemaHasEveryFieldOfEveryRow(t *testing.T) {
	t.Parallel()
	schema := telemetry.Schema()
	if len(schema) != telemetry.KindCount() {
		t.Errorf("%d of %d kinds", len(schema), telemetry.KindCount())
	}
	for _, body := range bodies() {
		e := telemetry.Event{At: time.Unix(7, 5), Run: "demo", Engine: "a", Key: "k", Body: body}
		i := slices.IndexFunc(schema, func(k telemetry.KindFields) bool { return k.Kind == e.Kind() })
		if i < 0 || schema[i].Sample != telemetry.Sample(e.Kind()) {
			t.Errorf("%s is not in the schema as what it is", e.Kind())
			continue
		}
		for name := range telemetry.Flat(e) {
			if !slices.ContainsFunc(schema[i].Fields, func(f telemetry.Field) bool { return f.Name == name }) {
				t.Errorf("%s: field %s is not in the schema", e.Kind(), name)
			}
		}
	}
}

// TestFieldsFitTheSmallestPlan: all fields of all kinds, with the two that Axiom adds, and room for versions to come.
func TestFieldsFitTheSmallestPlan(t *testing.T) {
	t.Parallel()
	const plan = 256
	fields := telemetry.Fields()
	if len(fields)+2 > plan-40 {
		t.Errorf("%d fields; the smallest plan allows %d per dataset", len(fields), plan)
	}
	maps := 0
	for _, f := range fields {
		if f.Type == telemetry.MapField {
			maps++
		}
	}
	if maps < 3 {
		t.Errorf("%d map fields: metrics, counts and own_phases_s have names that are open", maps)
	}
}

// TestSchemaThatAxiomIsTold: the fields that millrace axiom apply declares are those of the kinds; -update writes
// the file.
func TestSchemaThatAxiomIsTold(t *testing.T) {
	types := map[string]telemetry.FieldType{}
	for _, f := range telemetry.Fields() {
		types[f.Name] = f.Type
	}
	text, err := json.MarshalIndent(types, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	markdowntest.File(t, "../../observe/axiom/resources/fields.json", string(text)+"\n")
}
