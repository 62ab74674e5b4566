package tictactoe

import "strings"

const squares = 9

// lines are the squares that win together.
var lines = [...][3]int{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {0, 3, 6}, {1, 4, 7}, {2, 5, 8}, {0, 4, 8}, {2, 4, 6}}

// winner is the mark that has three in a row, or 0.
func (g *game) winner() byte {
	for _, l := range lines {
		if m := g.board[l[0]]; m != 0 && m == g.board[l[1]] && m == g.board[l[2]] {
			return m
		}
	}
	return 0
}

// free names the unmarked squares, top row first.
func (g *game) free() []string {
	var names []string
	for at, mark := range g.board {
		if mark == 0 {
			names = append(names, squareName(at))
		}
	}
	return names
}

func squareName(at int) string { return string([]byte{"abc"[at%3], "321"[at/3]}) }

// parseSquare is the square that an answer names, or -1.
func parseSquare(answer string) int {
	answer = strings.ToLower(strings.TrimSpace(answer))
	for at := range squares {
		if squareName(at) == answer {
			return at
		}
	}
	return -1
}

const rules = "Tic-tac-toe. Players X and O mark one free square in turn; three marks in a row, column or " +
	"diagonal win.\n" +
	"Squares are named by column a-c and row 1-3. Answer with the name of one free square.\n\n"

// prompt shows the board to the player; the rules come first, because all prompts share them.
func prompt(board [squares]byte, player string) string {
	var b strings.Builder
	b.WriteString(rules)
	for row := range 3 {
		b.WriteByte("321"[row])
		for _, mark := range board[row*3 : row*3+3] {
			b.WriteByte(' ')
			if mark == 0 {
				mark = '.'
			}
			b.WriteByte(mark)
		}
		b.WriteByte('\n')
	}
	b.WriteString("  a b c\n\nYou are " + player + ". Your move: ")
	return b.String()
}
