package chart

import "io"

// The place of a panel in a picture that stands alone, and how it looks there, where no style sheet is.
const (
	pictureWidth = 960
	pictureLeft  = 64
	pictureTop   = 40
	pictureStyle = `svg{overflow:visible}.marks{overflow:hidden}text{font:12px sans-serif;fill:#333}.tick{font-size:11px;fill:#666}` +
		`.stroke,.band{fill:none;stroke:#1f6feb;vector-effect:non-scaling-stroke;stroke-linecap:round}` +
		`.stroke{stroke-width:1.8px}.band{stroke-opacity:.45;stroke-width:1.2px}.grid{stroke:#e5e5e5}.axis{stroke:#999}`
)

// WriteFile writes the panel with its description and the name of its axis as a picture of its own.
func (p Panel) WriteFile(w io.Writer, axis string) error {
	if p.Height == 0 {
		p.Height = 160
	}
	d := &drawing{}
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"><style>%s</style>`, pictureWidth,
		p.Height+pictureTop+28, pictureStyle)
	d.put(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	d.put(`<text x="%d" y="24">%s</text>`, pictureLeft, escaped(p.Description))
	d.put(`<text x="%d" y="%d" text-anchor="end">%s</text>`, pictureWidth-16, p.Height+pictureTop+18, escaped(axis))
	d.put(`<svg x="%d" y="%d" width="%d" height="%d">`, pictureLeft, pictureTop,
		pictureWidth-pictureLeft-24, p.Height)
	if _, err := d.WriteTo(w); err != nil {
		return err
	}
	if err := p.WriteSVG(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "</svg></svg>\n")
	return err
}
