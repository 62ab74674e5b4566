package apl_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/telemetry/axiom/apl"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// steps are ten minutes of a run: six steps, one of them delivered twice, and three engines' samples.
func steps() (rows []map[string]any, columns []string) {
	row := func(second int, fields ...any) {
		r := map[string]any{"_time": start.Add(time.Duration(second) * time.Second)}
		for i := 0; i < len(fields); i += 2 {
			if n, ok := fields[i+1].(int); ok {
				fields[i+1] = float64(n)
			}
			r[fields[i].(string)] = fields[i+1]
		}
		rows = append(rows, r)
	}
	for k, wait := range []int{30, 0, 0, 10, 20, 30} {
		row(60*k, "kind", "step", "event_id", fmt.Sprint("s", k), "step", k, "wall_s", 60, "wait_s", wait,
			"metrics", map[string]any{"loss": 1.5 - float64(k)/10, "kl.mean": 0.25})
	}
	row(300, "kind", "step", "event_id", "s5", "step", 5, "wall_s", 60, "wait_s", 30)
	for i, engine := range []string{"a", "b", "a", "c"} {
		row(400+i, "kind", "sample", "event_id", fmt.Sprint("e", i), "engine", engine, "tps", 100*(i+1), "Note", "it's Ok")
	}
	return rows, strings.Fields("_time kind event_id step wall_s wait_s metrics engine tps Note never")
}

// TestRun is what queries answer: the columns, then a line for each row.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, query, want string }{
		{"everything, counted", `['d'] | count`, "Count\n11"},
		{"a field's value", `d | where kind == 'step' and step >= 4 | project step, wait_s`, "step wait_s\n4 20\n5 30\n5 30"},
		{"each event once", `['d'] | where kind == "step" | summarize arg_max(_time, step, wait_s) by event_id
			| summarize waited = sum(wait_s), steps = count()`, "waited steps\n90 6"},
		{"arg_max of all fields", `d | where kind == 'sample' | summarize arg_max(tps, *) by engine | project engine, tps, event_id
			| order by engine asc`, "engine tps event_id\na 300 e2\nb 200 e1\nc 400 e3"},
		{"names that nobody gave", `d | where kind == 'sample' | summarize count(), sum(tps), avg(tps), max(tps), percentile(tps, 50),
			dcount(engine), countif(tps > 150)`,
			"count_ sum_tps avg_tps max_tps percentile_tps_50 dcount_engine countif_\n4 1000 250 400 200 3 3"},
		{"spans of time", `d | where kind == 'step' | summarize n = count() by bin(_time, 2m)`,
			"_time n\n2026-01-02T03:00:00Z 2\n2026-01-02T03:02:00Z 2\n2026-01-02T03:04:00Z 3"},
		{"spans that fit the range", `d | where kind == 'step' and step == 5 | summarize n = count() by bin_auto(_time)`,
			"_time n\n2026-01-02T03:05:00Z 2"},
		{"conditions that add up", `d | where kind == 'step' | summarize a = sumif(wait_s, step < 3), b = maxif(wait_s, step > 3),
			c = avgif(wait_s, step == 3)`, "a b c\n30 30 10"},
		{"computed columns", `d | where kind == 'step' and step == 3 | extend share = round(1.0 * wait_s / wall_s, 3), none = wait_s / 0
			| project share, none = isnull(none)`, "share none\n0.167 true"},
		{"iff and case", `d | where kind == 'step' | take 4 | project a = iff(wait_s > 0, 'waits', 'works'),
			b = case(step == 0, 'first', step == 1, 'second', 'later')`,
			"a b\nwaits first\nworks second\nworks later\nwaits later"},
		{"a map's names", `d | where kind == 'step' and isnotnull(metrics) | take 1
			| project a = metrics.loss, b = metrics['kl.mean'], c = ['metrics']['loss'], e = metrics.nothing`,
			"a b c e\n1.5 0.25 1.5 "},
		{"texts", `d | where kind == 'sample' and Note contains 'IT' and Note !contains 'zzz' and Note startswith "it's"
			and Note has 'ok' and kind in ('sample', 'x') and kind !in ('y') and Note matches regex '^it.s' | count`, "Count\n4"},
		{"texts, made", `d | where kind == 'sample' | take 1 | project a = strcat(engine, '-', tps), b = toupper(engine),
			c = strlen(Note), e = substring(Note, 5), f = extract('t(.)s', 1, Note), g = tolower('AB'), h = tostring(tps)`,
			"a b c e f g h\na-100 A 7 Ok ' ab 100"},
		{"between", `d | where kind == 'step' and wait_s between (10 .. 20) | summarize n = count()`, "n\n2"},
		{"times", `d | where _time between (datetime(2026-01-02T03:01:00Z) .. datetime(2026-01-02T03:02:00Z)) | count`, "Count\n2"},
		{"times, relative", `d | where _time > ago(500s) and _time < now() - 450s | count`, "Count\n1"},
		{"times, subtracted", `d | summarize s = (max(_time))`, "s\n2026-01-02T03:06:43Z"},
		{"the most", `d | where kind == 'sample' | top 2 by tps | project engine, tps`, "engine tps\nc 400\na 300"},
		{"order, null last when it falls", `d | where kind == 'sample' or step == 5 | order by tps desc, _time asc | project tps`,
			"tps\n400\n300\n200\n100\n\n"},
		{"distinct", `d | distinct kind | order by kind asc`, "kind\nsample\nstep"},
		{"columns left out", `d | where step == 1 | project-away metrics, engine, tps, Note, never, _time, event_id, kind`,
			"step wall_s wait_s\n1 60 0"},
		{"a name for a value", `let most = 20; d | where kind == 'step' and wait_s > most | summarize n = dcount(step)`, "n\n2"},
		{"a field that may not be there", `d | take 1 | project a = column_ifexists('nothing', 7), b = column_ifexists('step', 7)`,
			"a b\n7 0"},
		{"a field that no row has yet", `d | where never == 'x' | count`, "Count\n0"},
		{"nothing equals null", `d | where tps == 100 or tps != 100 | summarize n = count(), m = countif(isnull(tps))`, "n m\n11 7"},
		{"groups of nothing", `d | where kind == 'none' | summarize n = count() by engine`, "engine n"},
		{"figures of nothing", `d | where kind == 'none' | summarize n = count(), s = sum(tps), a = avg(tps)`, "n s a\n0  "},
		{"comments", "d // the dataset\n| count // its rows", "Count\n11"},
		{"bin of a number", `d | where kind == 'sample' | summarize n = count() by t = bin(tps, 200) | order by t asc`,
			"t n\n0 1\n200 2\n400 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, err := apl.Parse(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			rows, columns := steps()
			got, err := q.Run(rows, columns, time.Time{}, time.Time{}, start.Add(10*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if text := written(got); text != tt.want {
				t.Errorf("got\n%s\nwant\n%s", text, tt.want)
			}
		})
	}
}

// written is a table as text, a line for each row.
func written(t *apl.Table) string {
	lines := []string{strings.Join(t.Columns, " ")}
	for _, row := range t.Rows {
		var cells []string
		for _, c := range t.Columns {
			v := row[c]
			switch v := v.(type) {
			case nil:
				cells = append(cells, "")
			case time.Time:
				cells = append(cells, v.Format(time.RFC3339))
			case string:
				cells = append(cells, v)
			default:
				b, _ := json.Marshal(v)
				cells = append(cells, string(b))
			}
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return strings.Join(lines, "\n")
}

// TestRefused is what this subset, or the language, does not have: each is named, with its place.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ query, want string }{
		{`d | join kind=inner (e) on x`, `line 1, column 5: want an operator of this subset`},
		{`d | where stepp == 1`, `line 1, column 11: there is no field stepp; did you mean step?`},
		{"d\n| where step = 1", `line 2, column 14: want | and an operator, found "="`},
		{`d | summarize sum(wait_s) / count()`, `summarize takes aggregates alone`},
		{`d | extend x = sum(wait_s)`, `sum is an aggregate; it stands directly after summarize`},
		{`d | extend wait_s * 2`, `give the column a name`},
		{`d | extend x = frobnicate(step)`, `this subset of APL has no function frobnicate`},
		{`d | summarize percentile(wait_s, 120)`, `percentile takes a number from 0 to 100`},
		{`d | summarize x = count(), x = sum(step)`, `column x is made twice`},
		{`d | summarize avg(kind)`, `avg of "step", which is no number`},
		{`d | where kind`, `where takes a condition, found a string`},
		{`d | where kind == 3`, `== compares a string with a integer`},
		{`d | where kind + 3 > 1`, `a string + a integer`},
		{`d | where 'open`, `this text has no closing '`},
		{`d | where step == 5x`, `5x: want a number, or a span of time`},
		{`d | take`, `want a whole number, found the end of the query`},
		{`d | summarize count() by bin(step, 5m)`, `bin of a integer by a timespan`},
		{`d | where iff(step, 1, 2) == 1`, `a condition is true or false, found a integer`},
		{`d | project max_of()`, `give the column a name`},
		{`d | extend x = round()`, `round has 0 arguments, and takes 1 to 2`},
		{`union a, b`, `a query begins with its dataset`},
		{`d | where Note matches regex '('`, `regular expression`},
		{`d | where datetime(yesterday) < _time`, `"yesterday" is no time`},
		{``, `found the end of the query`},
		{`d | where a ? b`, `'?' is no sign of this language`},
	} {
		t.Run(tt.query, func(t *testing.T) {
			t.Parallel()
			q, err := apl.Parse(tt.query)
			if err == nil {
				rows, columns := steps()
				_, err = q.Run(rows, columns, time.Time{}, time.Time{}, start)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	q, err := apl.Parse(`['d'] | where kind == 'x' and m.a > 0 | summarize arg_max(_time, b) by event_id
		| extend c = b + e | summarize sum(c) by bin_auto(_time) | order by sum_c asc`)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(q.Fields(), " "); got != "kind m.a _time b event_id e" {
		t.Errorf("reads %s", got)
	}
	if !q.BinnedByTime() || q.Dataset != "d" {
		t.Errorf("dataset %s, over time %v", q.Dataset, q.BinnedByTime())
	}
}

// TestRangeIsHalfOpen: rows at the beginning are read, rows at the end are not.
func TestRangeIsHalfOpen(t *testing.T) {
	t.Parallel()
	q, err := apl.Parse(`d | summarize n = count()`)
	if err != nil {
		t.Fatal(err)
	}
	rows, columns := steps()
	got, err := q.Run(rows, columns, start, start.Add(time.Minute), start)
	if err != nil || got.Rows[0]["n"] != 1.0 {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzQuery: whatever is asked, the answer is a table or an error with a place in the text.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		`['d'] | where kind == "step" | summarize arg_max(_time, step, wait_s) by event_id | top 3 by step`,
		`d | extend a = iff(step > 1, -step, 2e3), b = now() - 5m | project-away kind | order by a asc nulls last`,
		`let x = 1; d | where metrics['a'][0] between (1 .. x) or not(kind in~ ('A')) | summarize percentiles_array(step, 1, 99) by bin(_time, 1m)`,
		`d | where a matches regex @'\d+' and b !has 'x' // c`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := apl.Parse(text)
		if err != nil {
			return
		}
		q.Fields()
		rows, columns := steps()
		table, err := q.Run(rows, columns, time.Time{}, time.Time{}, start)
		if err != nil {
			return
		}
		if _, err := json.Marshal(table.Rows); err != nil && !strings.Contains(err.Error(), "year outside") {
			t.Errorf("%s: %v", text, err)
		}
	})
}
