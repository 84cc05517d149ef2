// age 1.2.1.
module appliance.example/age

go 1.19

require filippo.io/age v1.2.1

require (
	filippo.io/edwards25519 v1.1.0 // indirect
	golang.org/x/crypto v0.24.0 // indirect
	golang.org/x/sys v0.21.0 // indirect
	golang.org/x/term v0.21.0 // indirect
)
