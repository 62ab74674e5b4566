package processortime

import "testing"

func TestReadStat(t *testing.T) {
	t.Parallel()
	sec, err := readStat([]byte("42 (a) name) (x) S 1 42 42 0 -1 4194560 1000 0 0 0 250 50 0 0 20 0 9 0 100 1 1 1"))
	if err != nil || sec != 3 {
		t.Errorf("%v s, %v", sec, err)
	}
	if _, err := readStat([]byte("42 (short) S 1")); err == nil {
		t.Error("read a line that is cut off")
	}
}

func TestOwn(t *testing.T) {
	t.Parallel()
	if _, err := Of(1); err != nil {
		t.Skip("there is no account of processes:", err)
	}
	before := Own()
	for sum := 0; Own() == before; sum++ { // it grows with what is done
		_ = sum
	}
}
