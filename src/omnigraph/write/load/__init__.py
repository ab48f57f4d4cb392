"""Text, files and tables in, whole typed rows out, without a JVM: what `Graph.load` does with small inputs."""
