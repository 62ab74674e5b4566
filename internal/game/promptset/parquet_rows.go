package promptset

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetRows reads the rows of a Parquet file. Of its pages it holds one a column.
type parquetRows struct {
	file  *parquet.File
	rows  parquet.Rows // of one row group, at next
	group int
	next  int64
}

func openParquet(f io.ReaderAt, size int64) (r *parquetRows, err error) {
	defer broken(&err)
	file, err := parquet.OpenFile(f, size, parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("no Parquet: %w", err)
	}
	rows := int64(0)
	for _, group := range file.RowGroups() {
		rows += group.NumRows()
	}
	if rows != file.NumRows() {
		return nil, fmt.Errorf("broken Parquet: its row groups have %d rows, the file %d", rows, file.NumRows())
	}
	return &parquetRows{file: file, group: -1}, nil
}

// broken makes an error of a panic: the library ends so over some files that no writer would write.
func broken(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("broken Parquet: %v", p)
	}
}

func (r *parquetRows) spans() ([]span, error) {
	rows := make([]span, r.file.NumRows())
	for i := range rows {
		rows[i].number = i + 1
	}
	return rows, nil
}

func (r *parquetRows) read(s span) (row map[string]any, err error) {
	defer broken(&err)
	groups, at, group := r.file.RowGroups(), int64(s.number-1), 0
	for ; at >= groups[group].NumRows(); group++ {
		at -= groups[group].NumRows()
	}
	if group != r.group || at != r.next {
		r.rows, r.group = groups[group].Rows(), group
		if err := r.rows.SeekToRow(at); err != nil {
			return nil, err
		}
	}
	r.group, r.next = -1, at+1 // after an error another try begins anew
	read := make([]parquet.Row, 1)
	if n, err := r.rows.ReadRows(read); n == 0 {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	r.group = group
	var leaves [][]parquet.Value
	var bytes int64
	read[0].Range(func(_ int, values []parquet.Value) bool {
		for _, v := range values {
			if bytes++; v.Kind() == parquet.ByteArray {
				bytes += int64(len(v.ByteArray()))
			}
		}
		leaves = append(leaves, values)
		return true
	})
	if bytes > maxRowBytes { // as JSON it is not smaller
		return nil, tooLarge(bytes)
	}
	row, _ = object(r.file.Root(), leaves).(map[string]any)
	text, err := json.Marshal(row)
	if err == nil && len(text) > maxRowBytes {
		err = tooLarge(int64(len(text)))
	}
	return row, err
}

// value is what a column has in one row, as it would be in JSON, of the values of the columns of its leaves.
func value(c *parquet.Column, leaves [][]parquet.Value) any {
	given := leaves[0][0].DefinitionLevel() >= c.MaxDefinitionLevel()
	switch {
	case !c.Repeated() && !given:
		return nil
	case !c.Repeated():
		return object(c, leaves)
	}
	list := []any{}
	for given && len(leaves[0]) > 0 {
		one := make([][]parquet.Value, len(leaves))
		for i, values := range leaves {
			next := 1 + slices.IndexFunc(values[1:], func(v parquet.Value) bool {
				return v.RepetitionLevel() <= c.MaxRepetitionLevel()
			})
			if next == 0 {
				next = len(values)
			}
			one[i], leaves[i] = values[:next], values[next:]
		}
		list = append(list, object(c, one))
	}
	return list
}

// object is a value that is there, and one of it.
func object(c *parquet.Column, leaves [][]parquet.Value) any {
	if c.Leaf() {
		return scalar(c.Type(), leaves[0][0])
	}
	fields := map[string]any{}
	for _, field := range c.Columns() {
		n := leavesOf(field)
		fields[field.Name()] = value(field, leaves[:n:n])
		leaves = leaves[n:]
	}
	kind := logical(c.Type())
	if len(c.Columns()) != 1 || kind == nil {
		return fields
	}
	// Lists and maps are a group of a repeated field; its own fields are a list's element, or key and value.
	repeated := c.Columns()[0]
	list, _ := fields[repeated.Name()].([]any)
	inner := repeated.Columns()
	switch kind.(type) {
	case *format.ListType:
		if len(inner) == 1 {
			for i := range list {
				list[i] = list[i].(map[string]any)[inner[0].Name()]
			}
		}
		return list
	case *format.MapType:
		entries := map[string]any{}
		for _, entry := range list {
			entry := entry.(map[string]any)
			entries[fmt.Sprint(entry[inner[0].Name()])] = entry[inner[1].Name()]
		}
		return entries
	}
	return fields
}

func leavesOf(c *parquet.Column) (n int) {
	if c.Leaf() {
		return 1
	}
	for _, field := range c.Columns() {
		n += leavesOf(field)
	}
	return n
}

func logical(t parquet.Type) format.LogicalTypeValue {
	if t := t.LogicalType(); t != nil {
		return t.Value
	}
	return nil
}

// scalar is a value as JSON has it: times in RFC 3339, bytes as text, and null for what is no number.
func scalar(t parquet.Type, v parquet.Value) any {
	if v.IsNull() {
		return nil
	}
	number := int64(0)
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean()
	case parquet.Int32:
		number = int64(v.Int32())
	case parquet.Int64:
		number = v.Int64()
	case parquet.Int96: // nanoseconds of a day, and the day, counted from 4714 BC
		day := v.Int96()
		sinceMidnight := int64(day[1])<<32 | int64(day[0])
		return time.Unix((int64(day[2])-2_440_588)*86_400, sinceMidnight).UTC().Format(time.RFC3339Nano)
	case parquet.Float:
		return float(v.Float())
	case parquet.Double:
		return float(v.Double())
	}
	switch kind := logical(t).(type) {
	case *format.DateType:
		return time.Unix(number*86_400, 0).UTC().Format(time.DateOnly)
	case *format.TimeType:
		return time.Unix(0, 0).UTC().Add(time.Duration(number) * kind.Unit.Value.Duration()).Format("15:04:05.999999999")
	case *format.TimestampType:
		unit := int64(kind.Unit.Value.Duration())
		perSec := int64(time.Second) / unit
		return time.Unix(number/perSec, number%perSec*unit).UTC().Format(time.RFC3339Nano)
	case *format.DecimalType:
		return decimal(v, number, int(kind.Scale))
	case *format.IntType:
		if !kind.IsSigned && kind.BitWidth == 64 {
			return json.Number(fmt.Sprint(uint64(number)))
		} else if !kind.IsSigned {
			number &= math.MaxUint32
		}
	case *format.UUIDType:
		b := v.ByteArray()
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	if k := v.Kind(); k == parquet.Int32 || k == parquet.Int64 {
		return json.Number(fmt.Sprint(number))
	}
	return strings.ToValidUTF8(string(v.ByteArray()), "\uFFFD")
}

func float[T float32 | float64](f T) any {
	text, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return json.Number(text)
}

// decimal is a number with a point before its last digits, stored as an integer or as the bytes of one.
func decimal(v parquet.Value, integer int64, scale int) json.Number {
	n := big.NewInt(integer)
	if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
		bytes := v.ByteArray()
		n.SetBytes(bytes)
		if len(bytes) > 0 && bytes[0]&0x80 != 0 { // two's complement
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))))
		}
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return json.Number(new(big.Rat).SetFrac(n, power).FloatString(scale))
}
