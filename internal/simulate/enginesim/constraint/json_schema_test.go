package constraint

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

const ordersSchema = `{
	"type": "object",
	"properties": {
		"power": {"enum": ["FRANCE", "ITALY"]},
		"orders": {"type": "array", "items": {"$ref": "#/$defs/order"}, "minItems": 1, "maxItems": 3},
		"confidence": {"type": "integer", "minimum": 0, "maximum": 100},
		"note": {"type": ["string", "null"], "maxLength": 8}
	},
	"required": ["power", "orders"],
	"additionalProperties": false,
	"$defs": {"order": {"type": "object", "properties": {"unit": {"type": "string", "minLength": 1, "maxLength": 5}, "hold": {"type": "boolean"}}, "required": ["unit"]}}
}`

func TestJSONSchema(t *testing.T) {
	t.Parallel()
	c := NewCompiler(tokenizer.New(), 8)
	for _, tt := range []struct {
		schema     string
		good, evil []string
	}{
		{ordersSchema,
			[]string{`{"power": "ITALY", "orders": [{"unit": "A ROM"}]}`,
				`{"power":"FRANCE","orders":[{"unit":"x","hold":true},{"unit":"y"}],"confidence":7,"note":null}`},
			[]string{`{}`, `{"power":"SPAIN","orders":[{"unit":"x"}]}`, `{"power":"ITALY","orders":[]}`,
				`{"orders":[{"unit":"x"}],"power":"ITALY"}`,
				`{"power":"ITALY","orders":[{"unit":"x"}],"confidence":101}`, `{"power":"ITALY","orders":[{"unit":"x"}],}`}},
		{`{"type": "number"}`, []string{"0", "-1.5", "1e9", "12.25E-3"}, []string{"", "01", "1.", "."}},
		{`{"type": "string"}`, []string{`""`, `"a\n"`, `"é\u00e9"`}, []string{`"`, `a`, "\"\n\""}},
		{`{"anyOf": [{"type": "integer"}, {"const": {"a": [1, 2]}}]}`, []string{"-12", `{"a":[1,2]}`}, []string{"1.5"}},
		{`{}`, []string{`{"a": [1, {"b": null}]}`, "true", "[]"}, []string{"nope"}},
		{`{"type": "array", "items": {"type": "boolean"}, "maxItems": 0}`, []string{"[]"}, []string{"[true]"}},
	} {
		a, err := c.JSONSchema([]byte(tt.schema))
		if err != nil {
			t.Errorf("%s: %v", tt.schema, err)
			continue
		}
		for _, text := range tt.good {
			if !a.Matches(text) {
				t.Errorf("%s is refused by %s", text, tt.schema)
			}
		}
		for _, text := range tt.evil {
			if a.Matches(text) {
				t.Errorf("%s is accepted by %s", text, tt.schema)
			}
		}
	}
	for _, refused := range []string{
		`{"type": "string", "pattern": "a"}`, `{"type": "nothing"}`, `{"type": "integer", "minimum": 0}`, `[1]`, `{`,
		`{"$ref": "#/$defs/none"}`,
		`{"type": "object", "properties": {}, "required": ["a"]}`, `{"type": "number", "maximum": 3}`, `{"allOf": []}`,
	} {
		if _, err := c.JSONSchema([]byte(refused)); err == nil {
			t.Errorf("%s is accepted", refused)
		}
	}
}

func TestSampledJSONIsJSON(t *testing.T) {
	t.Parallel()
	tok := tokenizer.New()
	c := NewCompiler(tok, 2)
	quoted, _ := json.Marshal(ordersSchema) // a schema may come as a string
	orders, err := c.JSONSchema(quoted)
	if err != nil {
		t.Fatal(err)
	}
	object, err := c.JSONObject()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		for _, a := range []*Automaton{orders, object} {
			if text := sample(t, a, tok, rng); text != "" && !json.Valid([]byte(text)) {
				t.Errorf("%s", text)
			}
		}
	}
}
