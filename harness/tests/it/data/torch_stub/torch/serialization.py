def save(value, file):
    with open(file, "w") as out:
        out.write(value)
