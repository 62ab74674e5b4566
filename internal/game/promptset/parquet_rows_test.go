package promptset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace/millrace/internal/rollout"
)

// parquetFile is a file with these rows, in row groups of three, pages of one value each.
func parquetFile[T any](t *testing.T, rows []T, options ...parquet.WriterOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[T](f, append(options, parquet.MaxRowsPerRowGroup(3), parquet.PageBufferSize(1))...)
	if _, err = w.Write(rows); err == nil {
		err = w.Close()
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	return path
}

type message struct {
	Role    string `parquet:"role,dict"`
	Content string `parquet:"content"`
}

// question is a row as data sets for training have them.
type question struct {
	Messages []message `parquet:"messages,list"`
	Answer   string    `parquet:"answer"`
	W        *int64    `parquet:"w,optional"`
}

func questions(n int) (rows []question) {
	for i := range n {
		rows = append(rows, question{[]message{{"user", fmt.Sprint("What is ", i, " + 2?")}}, fmt.Sprint(i + 2), nil})
	}
	return rows
}

func overParquet(t *testing.T, path, options string) *Env {
	t.Helper()
	env, err := FromOptions(json.RawMessage(fmt.Sprintf(`{"dataset": %q, "chat": true%s}`, path, options)))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// TestParquetRowsOnceAPass: rows of all row groups, in whatever order they are drawn, with conversations and weights.
func TestParquetRowsOnceAPass(t *testing.T) {
	t.Parallel()
	for _, codec := range []parquet.WriterOption{parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Snappy),
		parquet.Compression(&parquet.Gzip), parquet.DataPageVersion(1)} {
		rows := questions(10)
		rows[4].W, rows[9].W = new(int64(3)), new(int64(0))
		env := overParquet(t, parquetFile(t, rows, codec), `, "weight": "w"`)
		var asked []string
		for pass := range 2 {
			asked = asked[:0]
			for i := range 11 {
				prompts, err := opened(t, env, rollout.GroupSeq(pass*11+i)).Prompts()
				if err != nil {
					t.Fatal(err)
				}
				asked = append(asked, prompts[0].Messages[0].Content)
			}
		}
		slices.Sort(asked)
		want := []string{"What is 4 + 2?", "What is 4 + 2?"}
		for i := range 9 {
			want = append(want, fmt.Sprint("What is ", i, " + 2?"))
		}
		if slices.Sort(want); !slices.Equal(asked, want) {
			t.Errorf("a pass has %q", asked)
		}
	}
}

// TestParquetValues: each is what the same row has in JSON.
func TestParquetValues(t *testing.T) {
	t.Parallel()
	type inner struct {
		X *int32 `parquet:"x,optional"`
		Y string `parquet:"y"`
	}
	type row struct {
		Yes     bool             `parquet:"yes"`
		Small   int8             `parquet:"small"`
		U32     uint32           `parquet:"u32"`
		U64     uint64           `parquet:"u64"`
		I64     int64            `parquet:"i64"`
		F32     float32          `parquet:"f32"`
		F64     float64          `parquet:"f64"`
		Text    string           `parquet:"text,dict"`
		Bytes   []byte           `parquet:"bytes"`
		ID      [16]byte         `parquet:"id,uuid"`
		Price   int64            `parquet:"price,decimal(2:18)"`
		Wide    [9]byte          `parquet:"wide,decimal(1:20)"`
		Day     int32            `parquet:"day,date"`
		Time    int64            `parquet:"time,time(microsecond)"`
		At      time.Time        `parquet:"at,timestamp(nanosecond)"`
		AtMilli time.Time        `parquet:"at_milli,timestamp(millisecond)"`
		Numbers []int64          `parquet:"numbers,list"`
		Plain   []int64          `parquet:"plain"` // repeated, as protocol buffers write it
		Inner   *inner           `parquet:"inner,optional"`
		Inners  []inner          `parquet:"inners,list"`
		Map     map[string]int64 `parquet:"map"`
	}
	full := row{Yes: true, Small: -3, U32: 4e9, U64: 1<<64 - 1, I64: -1 << 63, F32: 0.1, F64: 1e6, Text: "a\nb",
		Bytes: []byte("ab\xff"), ID: [16]byte{0x12, 15: 0x34}, Price: -105, Day: -1,
		Wide: [9]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe},
		Time: (time.Hour + time.Microsecond).Microseconds(), At: time.Unix(0, -1), AtMilli: time.UnixMilli(1_577_934_245_678),
		Numbers: []int64{1, 2}, Plain: []int64{3, 4}, Inner: &inner{new(int32(7)), "z"},
		Inners: []inner{{nil, "a"}, {new(int32(1)), "b"}}, Map: map[string]int64{"k": 5}}
	nan := row{F64: 0, F32: 0}
	nan.F64 /= nan.F64
	env := Rows(parquetFile(t, []row{full, nan}), Order{Shuffle: new(false)})
	for seq, want := range []string{`{"at":"1969-12-31T23:59:59.999999999Z","at_milli":"2020-01-02T03:04:05.678Z",` +
		`"bytes":"ab` + "\uFFFD" + `","day":"1969-12-31","f32":0.1,"f64":1000000,"i64":-9223372036854775808,` +
		`"id":"12000000-0000-0000-0000-000000000034","inner":{"x":7,"y":"z"},"inners":[{"x":null,"y":"a"},{"x":1,"y":"b"}],` +
		`"map":{"k":5},"numbers":[1,2],"plain":[3,4],"price":-1.05,"small":-3,"text":"a\nb","time":"01:00:00.000001",` +
		`"u32":4000000000,"u64":18446744073709551615,"wide":-0.2,"yes":true}`,
		`"f64":null,"i64":0,"id":"00000000-0000-0000-0000-000000000000","inner":null,"inners":[],"map":{},"numbers":[],` +
			`"plain":[],`} {
		got, from, err := env.Of(rollout.GroupSeq(seq))
		text, _ := json.Marshal(got)
		if err != nil || from != fmt.Sprint("row ", seq+1) || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v; want %s", from, text, err, want)
		}
		if _, is := got["i64"].(json.Number); !is {
			t.Errorf("a number is a %T", got["i64"])
		}
	}
}

// TestBrokenParquet: what cannot be read says where; what can be read is asked all the same.
func TestBrokenParquet(t *testing.T) {
	t.Parallel()
	rows := questions(9)
	rows[1].Answer = strings.Repeat("x", 70_000)
	rows[2].Messages = nil
	rows[5].Messages = slices.Repeat([]message{{"user", "."}}, 6000) // longer as JSON
	path := parquetFile(t, rows, parquet.Compression(&parquet.Zstd))
	env := overParquet(t, path, `, "shuffle": false`)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(says ...string) {
		t.Helper()
		for seq, want := range says {
			_, err := env.ScenarioOf(rollout.GroupSeq(seq))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("group %d: %v; want %q", seq, err, want)
			}
		}
	}
	check("", "row 2 of "+path+": 70", `row 3 of `+path+`: field "messages" is no list`, "", "",
		"row 6 of "+path+": 18", "", "", "")
	file, err := parquet.OpenFile(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	page := file.Metadata().RowGroups[1].Columns[2].MetaData.DataPageOffset
	overwritten := bytes.Clone(good)
	copy(overwritten[page:], bytes.Repeat([]byte{0xff}, 40))
	write(overwritten)
	if _, err := env.ScenarioOf(3); err == nil || !strings.Contains(err.Error(), "row 4 of "+path+": ") {
		t.Errorf("a page that was overwritten: %v", err)
	}
	check("")
	for _, tt := range []struct {
		content []byte
		want    string
	}{
		{good[:len(good)-100], "no Parquet: invalid magic footer"},
		{[]byte("{}\n"), "no Parquet: "},
		{nil, "no Parquet: "},
		{append(bytes.Clone(good[:len(good)-40]), "\xff\xff\xff\x00PAR1"...), "no Parquet: reading footer"},
		{bytes.Replace(good, []byte("\x16\x12\x19"), []byte("\x16\x14\x19"), 1), "row groups have 9 rows, the file 10"},
	} {
		write(tt.content)
		if _, err := env.ScenarioOf(0); err == nil || !strings.Contains(err.Error(), "dataset: read "+path+": ") ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v; want %s", err, tt.want)
		}
	}
	write(good) // found anew
	check("", "row 2 of ")
}

// TestParquetWithAWrongByte: whichever bit is flipped, a draw ends with a row or an error; over some of these files the
// library panics.
func TestParquetWithAWrongByte(t *testing.T) {
	t.Parallel()
	path := parquetFile(t, questions(9), parquet.Compression(&parquet.Zstd))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]int{}
	for i := 0; i < len(content); i += 3 {
		content[i] ^= 1
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		content[i] ^= 1
		_, _, err := Rows(path, Order{Shuffle: new(false)}).Of(rollout.GroupSeq(i % 9))
		switch {
		case err == nil:
			ended["row"]++
		case strings.Contains(err.Error(), "runtime error"):
			ended["panic"]++
		case strings.Contains(err.Error(), path):
			ended["error"]++
		default:
			t.Errorf("byte %d: %v", i, err)
		}
	}
	if ended["row"] == 0 || ended["panic"] == 0 || ended["error"] == 0 {
		t.Error(ended)
	}
}
