// A small client of the container runtime interface, on the definitions of Kubernetes 1.24.17.
module appliance.example/crictl

go 1.17

require (
	github.com/gogo/protobuf v1.3.2
	google.golang.org/grpc v1.40.0
	k8s.io/cri-api v0.24.17
)

require (
	github.com/golang/protobuf v1.5.2 // indirect
	golang.org/x/net v0.8.0 // indirect
	golang.org/x/sys v0.6.0 // indirect
	golang.org/x/text v0.8.0 // indirect
	google.golang.org/genproto v0.0.0-20220107163113-42d7afdf6368 // indirect
	google.golang.org/protobuf v1.27.1 // indirect
)
