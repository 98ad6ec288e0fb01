# For scripts that get jars by Maven: sourced in the checkout, after `usage` and `newest` are defined.

fail() {
    echo "scripts/${0##*/}: $*" >&2
    exit 2
}

# get_jars FOLDER GROUP ARTIFACT NEEDED [VERSION]: the jars NEEDED, comma-separated or `all`, of those that Maven resolves
# for an artifact, in FOLDER/VERSION; prints that folder.
get_jars() {
    local folder=$1 group=$2 artifact=$3 needed=$4 version=$newest argument home command
    shift 4
    for argument in "$@"; do
        case "$argument" in
            --help | -h) usage; exit ;;
            -*) fail "unknown option $argument: expected a version, such as $newest" ;;
            *) version=$argument ;;
        esac
    done
    [ $# -le 1 ] || fail "expected one version, found $#: $*"
    [[ "$version" =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "VERSION is $version: expected three numbers, such as $newest"

    home=$PWD/$folder/$version
    if [ -d "$home" ]; then
        echo "$home"
        exit
    fi
    for command in java mvn; do
        command -v "$command" > /dev/null || fail "$command is not on PATH: the jars need Java 17 or newer, and Maven"
    done

    mkdir -p "$folder"
    work=$(mktemp -d "$PWD/$folder/.$version.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cat > "$work/pom.xml" << POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kraft-trio</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency></dependencies>
</project>
POM
    echo "scripts/${0##*/}: resolving version $version" >&2
    local chosen=()
    [ "$needed" = all ] || chosen=("-DincludeArtifactIds=$needed")
    mvn -B -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime "${chosen[@]}" \
        -DoutputDirectory="$work/jars" < /dev/null > "$work/maven.log" 2>&1 || {
        grep '^\[ERROR\]' "$work/maven.log" | head -n 3 >&2 || true
        fail "Maven cannot get version $version"
    }
    [ -e "$work/jars/$artifact-$version.jar" ] || fail "Maven got no $artifact-$version.jar"
    mv -T "$work/jars" "$home"
    echo "$home"
}
