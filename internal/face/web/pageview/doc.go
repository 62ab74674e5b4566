// Package pageview makes what the operator's page shows of what the service knows: values in, values out, texts and
// charts ready to be written. It reads no clock and asks nobody. Each page has a type here, and a template in package
// web that writes it. Start reading at Overview, then Run.
package pageview
